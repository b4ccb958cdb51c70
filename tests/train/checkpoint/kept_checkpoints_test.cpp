#include "train/checkpoint/kept_checkpoints.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tapestry {
namespace {

using Steps = std::vector<std::uint64_t>;

/// A table with validations of these losses.
MetricsTable validated(const std::vector<std::pair<std::uint64_t, double>>& losses) {
  MetricsTable table;
  for (const auto& [step, loss] : losses) {
    table.add_validation(step, 1, {.tokens = 1, .loss = loss, .token_accuracy = loss / 10});
  }
  return table;
}

TEST_CASE("the last step and the scheduled steps before it are averaged") {
  TrainOptions options;
  options.save_every = 10;
  CHECK(steps_to_average(40, options).empty());
  options.average_last = 3;
  CHECK(steps_to_average(40, options) == Steps{20, 30, 40});
  CHECK(steps_to_average(41, options) == Steps{30, 40, 41});
  CHECK(steps_to_average(19, options) == Steps{10, 19});
  CHECK(steps_to_average(9, options) == Steps{9});
  CHECK(steps_to_average(0, options) == Steps{0});
}

TEST_CASE("a validation that is not the best may be among the best few") {
  TrainOptions options;
  const std::string csv = validated({{1, 3.0}, {2, 1.0}, {3, 2.0}, {4, 2.0}, {5, 2.5}}).csv();
  options.keep_best = 3;
  CHECK(is_further_best(3, csv, options));
  CHECK(is_further_best(4, csv, options));
  CHECK_FALSE(is_further_best(5, csv, options));
  options.keep_best = 2;
  CHECK(is_further_best(3, csv, options));
  CHECK_FALSE(is_further_best(4, csv, options));  // of equal ones, the earlier
  options.best_metric = "token_accuracy";
  CHECK(is_further_best(5, csv, options));
  CHECK_FALSE(is_further_best(2, csv, options));
}

TEST_CASE("validations that are not finite are not among the best") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string csv = validated({{1, infinity}, {2, std::nan("")}, {3, 1.0}}).csv();
  CHECK(best_validations(csv, "loss") == Steps{3});
  CHECK(best_validations(csv, "none").empty());
}

TEST_CASE("checkpoints of the average and of the best validations are kept") {
  TrainOptions options;
  options.save_every = 10;
  options.validate_every = 5;
  options.average_last = 2;
  TrainingState state;
  state.step = 22;
  state.scheduled_save = 15;
  state.best_step = 5;
  state.before_end = BeforeEnd{.best_step = 10};
  state.metrics = validated({{5, 2.0}, {10, 1.0}, {15, 3.0}, {22, 0.5}});
  const Retention without = kept_checkpoints(state, options);
  CHECK(without.keep_last == options.keep_last);
  CHECK(without.steps == Steps{20, 22, 15, 5, 10});
  CHECK(without.keep_best == 0);
  options.keep_best = 2;
  const Retention kept = kept_checkpoints(state, options);
  CHECK(kept.keep_best == 2);
  CHECK(kept.best_first == Steps{10, 5, 15});  // validating step 22 was not due
  state.step = 25;
  CHECK(kept_checkpoints(state, options).best_first == Steps{22, 10, 5, 15});
}

}  // namespace
}  // namespace tapestry
