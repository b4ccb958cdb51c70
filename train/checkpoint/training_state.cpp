#include "train/checkpoint/training_state.h"

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
  if (before_end && is_due) {  // a validation that is due stays when a run continues
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

}  // namespace tapestry
