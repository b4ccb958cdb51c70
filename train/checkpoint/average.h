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

/// The mean of the parameters of several checkpoints, which often scores better than each of them
/// [1]. If checkpoints have moving averages of the parameters (train.ema_decay), averages these.
/// Also averages buffers. Sums values in float64, in the order of add().
///
/// [1] Vaswani et al. 2017, "Attention Is All You Need", section 6.1.
class CheckpointAverage {
 public:
  /// Adds a checkpoint. Parameters and buffers are averaged; everything else, such as the config,
  /// comes from the last checkpoint.
  ///
  /// throws  CheckpointError if its parameters, shapes, element types, vocabularies, subword models
  ///         or keys `model.*`, except dropout rates, differ from those of the first
  ///         checkpoint.
  void add(const ArrayStore& checkpoint);

  /// The average as a checkpoint of a trained model. Training cannot resume from it, since it has
  /// no state of the optimizer and of train.ema_decay. Its history names the averaged steps.
  ///
  /// throws  std::logic_error if nothing was added.
  ArrayStore result() const;

 private:
  void require_same_arrays(const ArrayStore& checkpoint, const std::string& group) const;

  std::map<std::string, std::vector<double>> sums_;  ///< by path in the result
  std::vector<std::uint64_t> steps_;
  ArrayStore rest_;  ///< arrays of the last checkpoint, including its parameters
};

/// Reads the average at the end of a run (train.average_last). Its train/best_loss is the value of
/// train.best_metric of the average, infinity without validation. nullopt if the average is
/// missing, or belongs to another run or step, for example because the run was continued.
///
/// step    step of the newest checkpoint of the run
/// throws  CheckpointError if the file cannot be used.
std::optional<ArrayStore> read_final_average(const RunDirectory& run, std::uint64_t step);

/// The steps of the `count` newest checkpoints of a run, in ascending order: the newest checkpoints
/// if count <= train.keep_last, else the checkpoints that the run keeps for its average
/// (train.average_last). Does not include checkpoints that the run keeps only because they are the
/// best.
///
/// throws  CheckpointError if there are fewer than `count` such checkpoints.
std::vector<std::uint64_t> newest_steps(const RunDirectory& run, std::size_t count);

/// The steps of the `count` checkpoints of a run with the best values of train.best_metric, in
/// ascending order. Prefers earlier checkpoints among equal values.
///
/// throws  CheckpointError if fewer than `count` checkpoints of the run were validated.
std::vector<std::uint64_t> best_steps(const RunDirectory& run, std::size_t count);

}  // namespace tapestry
