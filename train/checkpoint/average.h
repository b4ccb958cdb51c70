// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/array_store.h"
#include "train/checkpoint/run_directory.h"

namespace tapestry {

/// The mean of the parameters of several checkpoints, which often scores better than any single
/// checkpoint [1]. Averages the moving averages of the parameters if the checkpoints have them
/// (train.ema_decay). Also averages buffers. Values are summed in float64, in the order of add().
///
/// [1] Vaswani et al. 2017, "Attention Is All You Need", section 6.1.
class CheckpointAverage {
 public:
  /// Adds a checkpoint. Parameters and buffers are averaged; everything else, such as the config,
  /// comes from the last checkpoint.
  ///
  /// throws  CheckpointError if its parameters, shapes, element types, vocabularies, subword models
  ///         or keys `model.*`, except dropout rates, differ from the first checkpoint's;
  ///         NumericError if a parameter is NaN or infinite.
  void add(const ArrayStore& checkpoint);

  /// The average as a checkpoint of a trained model. Training cannot resume from it, since it has
  /// neither optimizer state nor moving averages. Its history lists the averaged steps.
  ///
  /// throws  std::logic_error if no checkpoint was added; NumericError if a sum overflows.
  ArrayStore result() const;

 private:
  void require_same_arrays(const ArrayStore& checkpoint, const std::string& group) const;

  std::map<std::string, std::vector<double>>
      sums_;  ///< sums of values, by path in the averaged checkpoint
  std::vector<std::uint64_t> steps_;
  ArrayStore rest_;  ///< arrays of the last checkpoint, including its parameters
};

/// Reads the average that a run wrote at its end (train.average_last). Its train/best_loss is the
/// average's value of train.best_metric, or infinity without validation. Returns nullopt if the
/// average is missing, or belongs to a different run or step, for example because the run was
/// continued.
///
/// step    step of the newest checkpoint of the run
/// throws  CheckpointError if the file cannot be used.
std::optional<ArrayStore> read_final_average(const RunDirectory& run, std::uint64_t step);

/// The steps of the `count` newest checkpoints of a run, in ascending order. If count exceeds
/// train.keep_last, these are checkpoints that the run keeps for its average (train.average_last).
/// Does not include checkpoints that the run keeps only for their validation results.
///
/// throws  CheckpointError if the run has fewer than `count` such checkpoints.
std::vector<std::uint64_t> newest_steps(const RunDirectory& run, std::size_t count);

/// The steps of the `count` checkpoints of a run with the best values of train.best_metric, in
/// ascending order. If values are equal, prefers earlier checkpoints.
///
/// throws  CheckpointError if fewer than `count` checkpoints of the run were validated.
std::vector<std::uint64_t> best_steps(const RunDirectory& run, std::size_t count);

}  // namespace tapestry
