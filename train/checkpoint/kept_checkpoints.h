#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/checkpoint/run_directory.h"
#include "train/checkpoint/training_state.h"
#include "train/config/config.h"

/// Which checkpoints a run writes and keeps besides the scheduled and the newest ones.
namespace tapestry {

/// Whether the validation of a step, which is not the best one, is one of the train.keep_best best
/// ones up to now. Its checkpoint is then saved and kept.
///
/// metrics_csv  with the row of the validation
bool is_further_best(std::uint64_t step, const std::string& metrics_csv,
                     const TrainOptions& options);

/// The steps whose checkpoints are averaged if a run ends after `step` (train.average_last): this
/// step and the latest scheduled ones before it (train.save_every), in ascending order. Saves that
/// a signal or a validation caused are left out, so that a run that was stopped and resumed
/// averages the checkpoints of an uninterrupted run. Empty if there is to be no average.
std::vector<std::uint64_t> steps_to_average(std::uint64_t step, const TrainOptions& options);

/// The checkpoints that are kept when that of `state` is saved.
Retention kept_checkpoints(const TrainingState& state, const TrainOptions& options);

}  // namespace tapestry
