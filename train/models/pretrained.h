#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "layers/model.h"
#include "train/config/config.h"
#include "train/tasks/task.h"

namespace tapestry {

/// The data of a new run, and the pretrained model named by `train.initialize_from`, if any.
struct InitialState {
  std::optional<TrainedModel> model;
  Corpus corpus;  ///< encoded with the vocabulary of `model`, if there is one
};

/// throws  ConfigError if train.initialize_from names nothing, or a model of other input or words;
///         CheckpointError, DataError.
InitialState load_initial_state(const Config& config);

/// Copies each parameter of `from` to the parameter of `to` with the same name and shape, converted
/// to the element type of `to`. A classification head is not copied if the classes of the two
/// models differ. Returns lines for the user: which parameters were loaded, which are new and which
/// were not used.
///
/// origin   names `from`
/// targets  the words or classes that `to` predicts
/// throws   ConfigError if no parameter can be copied; `to` is then unchanged
std::vector<std::string> load_pretrained(const TrainedModel& from, const std::string& origin,
                                         const Vocabulary& targets, Model& to);

}  // namespace tapestry
