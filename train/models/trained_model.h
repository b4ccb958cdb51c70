// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "layers/model.h"
#include "train/config/config.h"
#include "train/tasks/task.h"

namespace tapestry {

class ArrayStore;

/// Loads a trained model with its config and codec; the data files are not needed.
///
///     const TrainedModel trained = load_trained_model("runs/copy");
///     const Task& task = find_task(trained.config);
///     const Example example = task.answers().read_text("a b c", trained.codec);
///     const std::vector<std::string> answers = task.answers().answer(trained, {example});
///
/// path     a checkpoint or a run directory. Loads the best checkpoint of a run, or the newest
///          checkpoint if no best checkpoint is recorded. Skips damaged checkpoints of a run and
///          prints a warning to standard error.
/// returns  the model in the element type of the run
/// throws   CheckpointError (a UserError with ExitCode::checkpoint) if no checkpoint exists or can
///          be used.
TrainedModel load_trained_model(const std::filesystem::path& path);

/// Restores the model of a checkpoint; the data files are not needed. Throws CheckpointError like
/// restore().
TrainedModel load_model(const ArrayStore& snapshot);

/// The data of a new run, and the pretrained model if `train.initialize_from` names a model.
struct InitialState {
  std::optional<TrainedModel> model;  ///< the pretrained model
  Corpus corpus;                      ///< encoded with the vocabulary of `model`, if `model` is set
};

/// throws  ConfigError if train.initialize_from does not exist, or if its model has a different
///         kind of input or vocabulary; CheckpointError, DataError.
InitialState load_initial_state(const Config& config);

/// Copies each parameter of `from` to the parameter of `to` with the same name and shape, converted
/// to the element type of `to`. A classification head is not copied if the classes of the two
/// models differ. Returns messages for the user: the number of loaded parameters, and the
/// parameters that are newly initialized or unused.
///
/// origin   names `from`
/// targets  the words or classes that `to` predicts
/// throws   ConfigError if no parameter can be copied; `to` is then unchanged
std::vector<std::string> load_pretrained(const TrainedModel& from, const std::string& origin,
                                         const Vocabulary& targets, Model& to);

}  // namespace tapestry
