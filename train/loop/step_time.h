// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "train/loop/step.h"

namespace tapestry {

/// The durations of a step, see time_step().
struct StepTime {
  using Duration = std::chrono::steady_clock::duration;

  Duration time{};              ///< duration of the whole step
  Duration preparation{};       ///< duration until its batches are ready
  Duration gradients{};         ///< forward and backward of all batches
  std::size_t targets = 0;      ///< number of target tokens
  std::uint64_t positions = 0;  ///< positions with padding, see target_positions(); 0 for images
  double loss = 0.0;
};

/// Computes and applies the next step, and measures its durations.
///
/// prefetch  see StepComputer::next_step()
/// throws    NumericError if loss or gradient are not finite; errors of StepComputer. The state is
///           then unchanged.
StepTime time_step(StepComputer& computer, bool prefetch = false);
/// Same as above for a step with these batches. Their number and size may differ from the run's
/// batches.
StepTime time_step(StepComputer& computer, std::vector<Batch> batches);

}  // namespace tapestry
