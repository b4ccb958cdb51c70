#pragma once

#include <filesystem>

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
/// path     a run directory, of which the best checkpoint is loaded, or the newest if no best one
///          is recorded; or a checkpoint. Damaged checkpoints of a run are skipped with a warning
///          on standard error
/// returns  the model in the element type of the run
/// throws   CheckpointError (a UserError with ExitCode::checkpoint) if there is no checkpoint or it
///          cannot be used.
TrainedModel load_trained_model(const std::filesystem::path& path);

/// Restores the model of a checkpoint; the data files are not needed. throws CheckpointError as
/// restore().
TrainedModel load_model(const ArrayStore& snapshot);

}  // namespace tapestry
