// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/error_text.h"
#include "train/config/error.h"
#include "train/config/load.h"
#include "train/config/steps.h"

/// Tests numbers of steps given as percentages or epochs.
namespace tapestry {
namespace {

Config with_schedule(const std::string& schedule, const std::vector<std::string>& overrides = {}) {
  return parse_config("schedule: {learning_rate: 0.1, " + schedule + "}\n", "c", overrides);
}

TEST_CASE("a percentage refers to the last value of train.steps, including overrides") {
  // The default of train.steps is 2000.
  CHECK(with_schedule("kind: cosine, warmup_steps: 5%").schedule.warmup_steps == 100);
  const Config config = with_schedule("kind: cosine, warmup_steps: 5%, decay_steps: 50%",
                                      {"train.steps=300", "train.save_every=10%"});
  CHECK(config.schedule.warmup_steps == 15);
  CHECK(config.schedule.decay_steps == 150);
  CHECK(config.train.save_every == 30);
  CHECK(describe_percentages(config) ==
        "of 300 steps: schedule.warmup_steps 5% = 15, schedule.decay_steps 50% = 150, "
        "train.save_every 10% = 30");
  CHECK_FALSE(describe_percentages(Config()).has_value());
}

TEST_CASE("percentages are rounded to whole steps, and only a cosine warm-up may be rounded to 0") {
  const auto warmup = [](const std::string& kind, const std::string& percent,
                         const std::string& steps) {
    return with_schedule("kind: " + kind + ", warmup_steps: " + percent, {"train.steps=" + steps})
        .schedule.warmup_steps;
  };
  CHECK(warmup("cosine", "6.67%", "3000") == 200);
  CHECK(warmup("cosine", "25%", "10") == 3);
  CHECK(warmup("cosine", "5%", "1") == 0);
  CHECK(warmup("inverse_sqrt", "5%", "1") == 1);
  const Config config =
      with_schedule("kind: cosine, decay_steps: 1%", {"train.log_every=1%", "train.steps=10"});
  CHECK(config.schedule.decay_steps == 1);
  CHECK(config.train.log_every == 1);
}

TEST_CASE("an override can replace a number with a percentage and vice versa") {
  CHECK(with_schedule("kind: cosine, warmup_steps: 5%", {"schedule.warmup_steps=7"})
            .schedule.warmup_steps == 7);
  CHECK(with_schedule("kind: cosine, warmup_steps: 7", {"schedule.warmup_steps=5%"})
            .schedule.warmup_steps == 100);
}

TEST_CASE("a dumped config has numbers instead of percentages") {
  const std::string dumped = dump_config(with_schedule("kind: cosine, warmup_steps: 5%"));
  CHECK(dumped.find("\n  warmup_steps: 100\n") != std::string::npos);
  CHECK(parse_config(dumped, "dumped").step_percentages.empty());
}

TEST_CASE("only step counts may be percentages") {
  CHECK_THROWS_AS(with_schedule("kind: cosine", {"train.batch_size=5%"}), ConfigError);
}

TEST_CASE("a resumed run keeps the step counts of percentages in its config unless overridden") {
  const Config before = with_schedule("kind: cosine, warmup_steps: 5%, decay_steps: 100%");
  const auto kept = [&](const std::vector<std::string>& overrides,
                        const std::vector<std::string>& allowed = {}) {
    Config config = with_schedule("kind: cosine, warmup_steps: 5%, decay_steps: 100%", overrides);
    keep_resolved_percentages(config, before, allowed);
    return config;
  };
  CHECK(kept({"train.steps=4000"}).schedule.warmup_steps == 100);
  CHECK(kept({"train.steps=4000"}).schedule.decay_steps == 2000);
  CHECK(kept({"train.steps=4000"}).step_percentages.empty());
  CHECK(kept({"train.steps=4000"}, {"schedule.decay_steps"}).schedule.decay_steps == 4000);
  CHECK(kept({"train.steps=4000", "schedule.warmup_steps=5%"}).schedule.warmup_steps == 200);
  // If the kind of schedule changes, its percentages are resolved again.
  Config other = with_schedule("kind: inverse_sqrt, warmup_steps: 10%");
  keep_resolved_percentages(other, before, {"schedule.kind"});
  CHECK(other.schedule.warmup_steps == 200);
}

Config parsed(const std::string& train, const std::vector<std::string>& overrides = {},
              const std::string& more = "") {
  return parse_config("train: {batch_size: 4, " + train + "}\n" + more, "c", overrides);
}

std::size_t steps_of(Config config, std::size_t batches, std::uint64_t step = 0,
                     BatchPosition position = {}) {
  resolve_epochs(config, batches, step, position);
  CHECK(config.train.epochs == 0);
  return config.train.steps;
}

TEST_CASE("the number of steps is the number of batches divided by train.accumulate, rounded up") {
  CHECK(steps_of(parsed("epochs: 3"), 2) == 6);
  CHECK(steps_of(parsed("epochs: 3"), 3) == 9);
  CHECK(steps_of(parsed("epochs: 3, accumulate: 2"), 3) == 5);
  CHECK(steps_of(parsed("epochs: 1, accumulate: 7"), 1) == 1);
  CHECK(steps_of(parsed("steps: 17"), 3) == 17);
}

TEST_CASE("a resumed run trains the remaining steps of its epochs") {
  CHECK(steps_of(parsed("epochs: 3"), 3, 5, {.epoch = 1, .batch = 2}) == 9);
  // The batch size has changed.
  CHECK(steps_of(parsed("epochs: 3"), 3, 4, {.epoch = 2, .batch = 0}) == 7);
  CHECK(steps_of(parsed("epochs: 1"), 3, 5, {.epoch = 1, .batch = 2}) == 5);  // a finished run
  CHECK(steps_of(parsed("epochs: 3, accumulate: 2"), 3, 2, {.epoch = 1, .batch = 1}) == 5);
}

TEST_CASE("epochs and steps exclude each other, and an override of one replaces the other") {
  CHECK_THROWS_AS(parsed("steps: 5, epochs: 3"), ConfigError);
  CHECK_THROWS_AS(parsed("seed: 1", {"train.steps=5", "train.epochs=3"}), ConfigError);
  CHECK(parsed("steps: 5", {"train.epochs=3"}).train.epochs == 3);
  CHECK(parsed("epochs: 3", {"train.steps=5"}).train.epochs == 0);
  CHECK(parsed("epochs: 3", {"train.steps=5"}).train.steps == 5);
  CHECK(parsed("steps: 5, epochs: 0").train.steps == 5);
}

TEST_CASE("with train.epochs, percentages refer to the number of steps of all epochs") {
  Config config =
      parsed("epochs: 10", {}, "schedule: {kind: cosine, warmup_steps: 20%, decay_steps: 50%}\n");
  resolve_epochs(config, 10);
  CHECK(config.train.steps == 100);
  CHECK(config.schedule.warmup_steps == 20);
  CHECK(config.schedule.decay_steps == 50);
}

TEST_CASE("rules about the number of steps are not checked before epochs are resolved") {
  // Warm-ups longer than the default of train.steps, but shorter than 300 epochs.
  for (const std::string schedule :
       {"kind: cosine, warmup_steps: 20000",
        "kind: cosine, warmup_steps: 20000, decay_steps: 20001",
        "kind: cosine, warmup_steps: 0, decay_steps: 99%",
        "kind: linear_warmup, warmup_steps: 20000", "kind: inverse_sqrt, warmup_steps: 20000",
        "kind: cosine, warmup_steps: 10%"}) {
    CAPTURE(schedule);
    const std::string more = "schedule: {" + schedule + "}\n";
    CHECK(steps_of(parsed("epochs: 300", {}, more), 1000) == 300'000);
    CHECK(steps_of(parsed("steps: 5", {"train.epochs=300"}, more), 1000) == 300'000);
    CHECK(steps_of(parsed("seed: 2", {"train.epochs=300"}, more), 1000) == 300'000);
  }
}

TEST_CASE("rules about the number of steps are checked when epochs are resolved") {
  const auto resolved = [](const std::string& schedule, const std::string& epochs) {
    Config config = parsed("epochs: " + epochs, {}, "schedule: {kind: cosine, " + schedule + "}\n");
    resolve_epochs(config, 10);
    return config;
  };
  CHECK(resolved("warmup_steps: 20000", "3000").train.steps == 30000);
  // The percentage refers to the 30 steps, not to the default of train.steps.
  CHECK(resolved("warmup_steps: 10%, decay_steps: 20", "3").schedule.warmup_steps == 3);
  for (const char* schedule : {"warmup_steps: 20", "warmup_steps: 50%, decay_steps: 10"}) {
    const std::string error = test::error_text<ConfigError>([&] { resolved(schedule, "2"); });
    CHECK_MESSAGE(error.starts_with("schedule.warmup_steps: "), error);
    CHECK_MESSAGE(test::contains(error, "no step for the decay"), error);
  }
  Config long_run = parsed("epochs: 1000000");
  CHECK_THROWS_AS(resolve_epochs(long_run, 10'000'000), ConfigError);
}

}  // namespace
}  // namespace tapestry
