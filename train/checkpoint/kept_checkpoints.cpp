#include "train/checkpoint/kept_checkpoints.h"

#include <algorithm>

#include "train/checkpoint/metrics.h"

namespace tapestry {

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
    // A validation that only the end of a run adds takes no place: a run that continues drops it.
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
