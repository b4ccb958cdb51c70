#pragma once

#include <cstdint>
#include <memory>

#include "data/corpus.h"
#include "data/text/codec.h"
#include "layers/model.h"
#include "train/config/config.h"

namespace tapestry {

/// A model from a checkpoint, with what it takes to use it.
struct TrainedModel {
  Config config;
  TextCodec codec;
  std::unique_ptr<Model> model;
  DataIdentity data;  ///< that it was trained on
  std::uint64_t step;
};

}  // namespace tapestry
