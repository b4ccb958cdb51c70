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
/// [1]. Of checkpoints with averages (train.ema_decay), these are averaged. Buffers are averaged as
/// well. Values are summed in float64, in the order of add().
///
/// [1] Vaswani et al. 2017, "Attention Is All You Need", section 6.1.
class CheckpointAverage {
 public:
  /// Adds a checkpoint. Everything but the values, such as the config, is taken from the last one.
  ///
  /// throws  CheckpointError if it has other parameters, shapes, element types, vocabularies,
  ///         subword models or values of keys `model.*`, except dropout rates, than the first one.
  void add(const ArrayStore& checkpoint);

  /// The average as a checkpoint of a trained model, which cannot be resumed: without the state of
  /// the optimizer and of train.ema_decay. Its history names the steps.
  ///
  /// throws  std::logic_error if nothing was added.
  ArrayStore result() const;

 private:
  void require_same_arrays(const ArrayStore& checkpoint, const std::string& group) const;

  std::map<std::string, std::vector<double>> sums_;  ///< by path in the result
  std::vector<std::uint64_t> steps_;
  ArrayStore rest_;  ///< arrays of the last checkpoint, with the parameters
};

/// The average at the end of a run (train.average_last). Its train/best_loss is its own
/// value of train.best_metric, infinity without validation. nullopt if it is missing, or if it is
/// not of this run and step, such as after a run was continued.
///
/// step    of the newest checkpoint of the run
/// throws  CheckpointError if the file cannot be used.
std::optional<ArrayStore> read_final_average(const RunDirectory& run, std::uint64_t step);

/// The steps of the `count` newest checkpoints of a run, in ascending order: of the ones that it
/// keeps because they are the newest (train.keep_last), or else, if they are fewer, because it
/// averages them (train.average_last). Older ones that are kept because they are the best are not
/// among them.
///
/// throws  CheckpointError if the run has, or keeps so, fewer than `count`.
std::vector<std::uint64_t> newest_steps(const RunDirectory& run, std::size_t count);

/// The steps of the checkpoints of a run with the best values of its train.best_metric, in
/// ascending order; of equal ones the earliest.
///
/// throws  CheckpointError if fewer than `count` checkpoints of the run were validated.
std::vector<std::uint64_t> best_steps(const RunDirectory& run, std::size_t count);

}  // namespace tapestry
