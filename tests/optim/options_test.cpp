#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <initializer_list>
#include <limits>
#include <string>

#include "autograd/error.h"

using namespace tapestry;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("the default options are valid") {
  CHECK_NOTHROW(validate(OptimizerOptions{}));
  CHECK_NOTHROW(validate(ScheduleOptions{}));
}

TEST_CASE("a decay or momentum is at least 0 and less than 1") {
  CHECK_NOTHROW(validate(OptimizerOptions{.momentum = 0.0, .beta1 = 0.0, .beta2 = 0.0}));
  CHECK_NOTHROW(validate(OptimizerOptions{.momentum = 0.9999, .beta1 = 0.9999, .beta2 = 0.9999}));
  CHECK_THROWS_WITH_AS(validate(OptimizerOptions{.momentum = 1.0}),
                       "optimizer: momentum is 1, expected at least 0 and less than 1", ValueError);
  CHECK_THROWS_WITH_AS(validate(OptimizerOptions{.beta1 = -0.5}),
                       "optimizer: beta1 is -0.5, expected at least 0 and less than 1", ValueError);
  CHECK_THROWS_WITH_AS(validate(OptimizerOptions{.beta2 = not_a_number}),
                       "optimizer: beta2 is nan, expected at least 0 and less than 1", ValueError);
}

TEST_CASE("epsilon is positive") {
  CHECK_THROWS_WITH_AS(validate(OptimizerOptions{.epsilon = 0.0}),
                       "optimizer: epsilon is 0, expected a finite number > 0", ValueError);
  CHECK_THROWS_AS(validate(OptimizerOptions{.epsilon = infinity}), ValueError);
}

TEST_CASE("weight decay may be 0 but not negative") {
  CHECK_NOTHROW(validate(OptimizerOptions{.weight_decay = 0.0}));
  CHECK_THROWS_WITH_AS(validate(OptimizerOptions{.weight_decay = -0.1}),
                       "optimizer: weight_decay is -0.1, expected a finite number >= 0",
                       ValueError);
}

TEST_CASE("every number of an optimizer is checked separately, and the error names it") {
  using Field = double OptimizerOptions::*;
  const auto refused = [](Field field, const char* name, std::initializer_list<double> values) {
    for (const double value : values) {
      CAPTURE(name);
      CAPTURE(value);
      OptimizerOptions options;
      options.*field = value;
      const std::string start = fmt::format("optimizer: {} is {}, expected", name, value);
      CHECK_THROWS_WITH_AS(validate(options), doctest::Contains(start.c_str()), ValueError);
    }
  };
  const double least = std::numeric_limits<double>::denorm_min();
  refused(&OptimizerOptions::momentum, "momentum", {1, -least, not_a_number, infinity, -infinity});
  refused(&OptimizerOptions::beta1, "beta1", {1, -least, not_a_number, infinity, -infinity});
  refused(&OptimizerOptions::beta2, "beta2", {1, -least, not_a_number, infinity, -infinity});
  refused(&OptimizerOptions::epsilon, "epsilon", {0, -1, not_a_number, infinity, -infinity});
  refused(&OptimizerOptions::weight_decay, "weight_decay",
          {-least, not_a_number, infinity, -infinity});
  CHECK_NOTHROW(validate(OptimizerOptions{.epsilon = least, .weight_decay = least}));
}

TEST_CASE("every number of a schedule is checked separately, and the error names it") {
  const auto start_of = [](const char* name, double value) {
    return fmt::format("schedule: {} is {}, expected a finite number", name, value);
  };
  for (const double value : {0.0, -1.0, not_a_number, infinity, -infinity}) {
    CHECK_THROWS_WITH_AS(validate(ScheduleOptions{.learning_rate = value}),
                         doctest::Contains(start_of("learning_rate", value).c_str()), ValueError);
  }
  for (const double value : {-1.0, not_a_number, infinity, -infinity}) {
    CHECK_THROWS_WITH_AS(validate(ScheduleOptions{.min_learning_rate = value}),
                         doctest::Contains(start_of("min_learning_rate", value).c_str()),
                         ValueError);
  }
}

TEST_CASE("learning rates are finite, the peak positive, the floor not negative") {
  CHECK_THROWS_WITH_AS(validate(ScheduleOptions{.learning_rate = 0.0}),
                       "schedule: learning_rate is 0, expected a finite number > 0", ValueError);
  CHECK_THROWS_AS(validate(ScheduleOptions{.learning_rate = not_a_number}), ValueError);
  CHECK_THROWS_WITH_AS(validate(ScheduleOptions{.min_learning_rate = -1.0}),
                       "schedule: min_learning_rate is -1, expected a finite number >= 0",
                       ValueError);
}

TEST_CASE("a constant rate has no warm-up") {
  CHECK_THROWS_WITH_AS(validate(ScheduleOptions{.warmup_steps = 10}),
                       "schedule: warmup_steps is 10, expected 0 with kind constant; kind "
                       "linear_warmup is constant after a warm-up",
                       ValueError);
}

TEST_CASE("a cosine has decay_steps above warmup_steps, and its floor is at most the peak") {
  ScheduleOptions options{.kind = ScheduleKind::cosine,
                          .learning_rate = 0.5,
                          .warmup_steps = 10,
                          .decay_steps = 11,
                          .min_learning_rate = 0.5};
  CHECK_NOTHROW(validate(options));
  options.decay_steps = 10;
  CHECK_THROWS_WITH_AS(validate(options),
                       "schedule: decay_steps is 10, expected more than warmup_steps (10)",
                       ValueError);
  options.min_learning_rate = 0.6;
  CHECK_THROWS_WITH_AS(validate(options),
                       "schedule: min_learning_rate is 0.6, expected at most learning_rate (0.5)",
                       ValueError);
}

TEST_CASE("decay_steps and min_learning_rate are not checked for other kinds than cosine") {
  for (const auto kind :
       {ScheduleKind::constant, ScheduleKind::linear_warmup, ScheduleKind::inverse_sqrt}) {
    CHECK_NOTHROW(validate(ScheduleOptions{.kind = kind, .decay_steps = 2000}));
    CHECK_NOTHROW(validate(ScheduleOptions{.kind = kind, .min_learning_rate = 2.0}));
  }
}
