#pragma once

#include <memory>
#include <string>

#include "data/codec.h"
#include "data/corpus.h"
#include "train/commands/commands.h"
#include "train/commands/open_run.h"
#include "train/config/config.h"
#include "train/model.h"

namespace tapestry {

/// A model and what it is to read.
struct AttentionSubject {
  Config config;
  TextCodec codec;
  std::unique_ptr<Model> model;
  ModelOrigin origin;
  Example example;
  std::string name;  ///< of the example
};

/// What the arguments name. A text needs no data where the model is trained; a seq2seq model gets
/// its own output as the target of it.
///
/// throws  ConfigError, CheckpointError, DataError.
AttentionSubject attention_subject(const AttentionArguments& arguments);

}  // namespace tapestry
