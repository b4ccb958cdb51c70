// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/training_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tapestry {

bool TrainingState::compare_validation(const std::string& metric, double value, bool is_due) {
  const bool best = best_step ? is_better(metric, value, best_value) : std::isfinite(value);
  ++validations_since_best;
  if (best) {
    best_value = value;
    best_step = step;
    validations_since_best = 0;
  }
  if (before_end && is_due) {  // a validation that was due remains valid if the run continues
    before_end->best_value = best_value;
    before_end->best_step = best_step;
  }
  return best;
}

void TrainingState::add_end_rows(const std::function<void()>& add) {
  if (!before_end) {
    const std::uint64_t bytes = metrics.csv().size();
    before_end = BeforeEnd{.running = running,
                           .best_value = best_value,
                           .best_step = best_step,
                           .metrics_begin = bytes,
                           .metrics_end = bytes};
  }
  add();
  before_end->metrics_end = metrics.csv().size();
}

void TrainingState::revert_end_rows() {
  if (!before_end) return;
  const BeforeEnd before = *std::exchange(before_end, std::nullopt);
  running = before.running;
  best_value = before.best_value;
  best_step = before.best_step;
  metrics.erase(before.metrics_begin, before.metrics_end);
}

bool is_further_best(std::uint64_t step, const std::string& metrics_csv,
                     const TrainOptions& options) {
  if (options.keep_best == 1) return false;
  std::vector<std::uint64_t> best = best_validations(metrics_csv, options.best_metric);
  best.resize(std::min(best.size(), options.keep_best));
  return std::ranges::find(best, step) != best.end();
}

std::vector<std::uint64_t> steps_to_average(std::uint64_t step, const TrainOptions& options) {
  if (options.average_last == 0) return {};
  std::vector<std::uint64_t> steps{step};
  const std::uint64_t every = options.save_every;
  std::uint64_t scheduled = step / every * every;
  while (scheduled > 0 && steps.size() < options.average_last) {
    if (scheduled != step) steps.push_back(scheduled);
    scheduled -= every;
  }
  std::ranges::reverse(steps);
  return steps;
}

Retention kept_checkpoints(const TrainingState& state, const TrainOptions& options) {
  Retention kept{.keep_last = options.keep_last, .steps = steps_to_average(state.step, options)};
  if (options.keep_best > 1) {
    kept.best_first = best_validations(state.metrics.csv(), options.best_metric);
    kept.keep_best = options.keep_best;
    // A validation that is done only because the run ends does not count, because a continued run
    // discards it.
    if (state.step % options.validate_every != 0) std::erase(kept.best_first, state.step);
  }
  kept.steps.push_back(state.scheduled_save);
  if (state.best_step) kept.steps.push_back(*state.best_step);
  if (state.before_end && state.before_end->best_step) {
    kept.steps.push_back(*state.before_end->best_step);
  }
  return kept;
}

}  // namespace tapestry
