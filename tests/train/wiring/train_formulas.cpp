#include "tests/train/wiring/train_formulas.h"

#include <cmath>
#include <numbers>

namespace tapestry::test {

double rate_of(const Config& config, std::uint64_t step) {
  const ScheduleOptions& o = config.schedule;
  const auto t = static_cast<double>(step), w = static_cast<double>(o.warmup_steps);
  const double peak = o.learning_rate;
  switch (o.kind) {
    case ScheduleKind::constant:
      return peak;
    case ScheduleKind::linear_warmup:
      return t < w ? peak * t / w : peak;
    case ScheduleKind::inverse_sqrt:
      return t < w ? peak * t / w : peak * std::sqrt(w / t);
    case ScheduleKind::cosine:
      break;
  }
  const auto d = static_cast<double>(o.decay_steps == 0 ? config.train.steps : o.decay_steps);
  if (t < w) return peak * t / w;
  if (t >= d) return o.min_learning_rate;
  const double turn = std::cos(std::numbers::pi * (t - w) / (d - w));
  return o.min_learning_rate + (peak - o.min_learning_rate) * (1.0 + turn) / 2.0;
}

}  // namespace tapestry::test
