#include "train/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "train/error.h"
#include "train/non_finite.h"
#include "train/step.h"

// Steps that a Trainer computes in memory alone, for their duration or their values.

namespace tapestry {

Trainer::StepTime Trainer::try_step(bool ahead) {
  const TimeLimit::Clock::time_point started = TimeLimit::Clock::now();
  std::vector<Batch> batches;
  group_.together([&] { batches = next_batches(ahead); });
  const TimeLimit::Clock::duration preparation = TimeLimit::Clock::now() - started;
  StepTime step = try_step(batches);
  step.preparation = preparation;
  step.time += preparation;
  return step;
}

Trainer::StepTime Trainer::try_step(const std::vector<Batch>& batches) {
  const TimeLimit::Clock::time_point started = TimeLimit::Clock::now();
  const std::uint64_t step = state_.step + 1;
  const StepLoss loss = compute_gradients(batches, step, config_.train, model_, group_);
  const TimeLimit::Clock::duration gradients = TimeLimit::Clock::now() - started;
  const double norm = gradient_norm();
  if (!std::isfinite(loss.mean + norm)) {
    throw NumericError(fmt::format("step {}: the loss is {} and the norm of the gradient {}, "
                                   "expected finite numbers",
                                   step, value_text(loss.mean), value_text(norm)),
                       smaller_steps_hint);
  }
  update_weights(schedule_->learning_rate(step), norm);
  state_.step = step;
  std::uint64_t positions = 0;
  for (const Batch& batch : batches) {
    positions += std::uint64_t{batch.rows} * (batch.source_length + batch.target_length);
  }
  return {.time = TimeLimit::Clock::now() - started,
          .gradients = gradients,
          .targets = loss.target_tokens,
          .positions = positions,
          .loss = loss.mean};
}

Trainer::StepRecord Trainer::replay_step(
    const std::function<void(const StepRecord&)>& before_update, const BatchObservers& observers) {
  StepRecord record{.step = state_.step + 1, .position = state_.position};
  record.batches = next_batches(false);
  record.loss =
      compute_gradients(record.batches, record.step, config_.train, model_, group_, observers);
  record.gradient_norm = gradient_norm();
  record.clip_factor = clip_factor(record.gradient_norm, config_.train.clip_norm);
  record.learning_rate = schedule_->learning_rate(record.step);
  record.updated = std::isfinite(record.loss.mean) && std::isfinite(record.gradient_norm);
  before_update(record);
  if (record.updated) update_weights(record.learning_rate, record.gradient_norm);
  state_.step = record.step;
  return record;
}

}  // namespace tapestry
