#include "optim/options.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"

namespace tapestry {
namespace {

template <class Value, class Limit>
[[noreturn]] void refuse(const char* field, Value value, const Limit& expected) {
  throw ValueError(fmt::format("{} is {}, expected {}", field, value, expected));
}

void require_from_0_below_1(const char* field, double value) {
  if (!(value >= 0.0 && value < 1.0)) refuse(field, printable(value), "at least 0 and less than 1");
}

void require_not_negative(const char* field, double value) {
  if (!(value >= 0.0 && std::isfinite(value)))
    refuse(field, printable(value), "a finite number >= 0");
}

void require_positive(const char* field, double value) {
  if (!(value > 0.0 && std::isfinite(value)))
    refuse(field, printable(value), "a finite number > 0");
}

void require_fall(const ScheduleOptions& options) {
  if (!(options.min_learning_rate <= options.learning_rate)) {
    refuse("schedule: min_learning_rate", printable(options.min_learning_rate),
           fmt::format("at most learning_rate ({})", printable(options.learning_rate)));
  }
  if (options.decay_steps <= options.warmup_steps) {
    refuse("schedule: decay_steps", options.decay_steps,
           fmt::format("more than warmup_steps ({})", options.warmup_steps));
  }
}

}  // namespace

void validate(const OptimizerOptions& options) {
  require_from_0_below_1("optimizer: momentum", options.momentum);
  require_from_0_below_1("optimizer: beta1", options.beta1);
  require_from_0_below_1("optimizer: beta2", options.beta2);
  require_positive("optimizer: epsilon", options.epsilon);
  require_not_negative("optimizer: weight_decay", options.weight_decay);
}

void validate(const ScheduleOptions& options) {
  require_positive("schedule: learning_rate", options.learning_rate);
  require_not_negative("schedule: min_learning_rate", options.min_learning_rate);
  if (options.kind == ScheduleKind::constant && options.warmup_steps != 0) {
    refuse("schedule: warmup_steps", options.warmup_steps,
           "0 with kind constant; kind linear_warmup is constant after a warm-up");
  }
  if (options.kind == ScheduleKind::cosine) require_fall(options);
}

}  // namespace tapestry
