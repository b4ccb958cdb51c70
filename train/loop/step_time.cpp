// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/step_time.h"

#include <fmt/format.h>

#include <utility>

#include "train/base/error.h"
#include "train/inference/batch_tensors.h"
#include "train/loop/non_finite.h"

namespace tapestry {
namespace {

using Clock = std::chrono::steady_clock;

/// The times of a step whose preparation began at `started`.
StepTime time_prepared_step(StepComputer& computer, RunStep step, Clock::time_point started) {
  const Clock::duration preparation = Clock::now() - started;
  computer.compute(step);
  if (!step.is_finite()) {
    throw NumericError(
        fmt::format("step {}: the loss is {} and the norm of the gradient {}, expected finite "
                    "numbers",
                    step.number, value_text(step.loss.mean), value_text(step.gradient_norm)),
        non_finite_hint(step.number - 1));
  }
  computer.apply(step);
  std::uint64_t positions = 0;
  for (const Batch& batch : step.batches) {
    positions +=
        std::uint64_t{batch.rows} * (batch.source_length + target_positions(batch.target_length));
  }
  return {.time = Clock::now() - started,
          .preparation = preparation,
          .gradients = step.loss.durations.gradients,
          .targets = step.loss.target_tokens,
          .positions = positions,
          .loss = step.loss.mean};
}

}  // namespace

StepTime time_step(StepComputer& computer, bool prefetch) {
  const Clock::time_point started = Clock::now();
  return time_prepared_step(computer, computer.next_step(prefetch), started);
}

StepTime time_step(StepComputer& computer, std::vector<Batch> batches) {
  const Clock::time_point started = Clock::now();
  return time_prepared_step(computer, computer.next_step(std::move(batches)), started);
}

}  // namespace tapestry
