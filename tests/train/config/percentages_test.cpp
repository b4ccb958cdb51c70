#include "train/config/percentages.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "train/config/error.h"

namespace tapestry {
namespace {

Config parsed(const std::string& schedule, const std::vector<std::string>& overrides = {}) {
  return parse_config("schedule: {learning_rate: 0.1, " + schedule + "}\n", "c", overrides);
}

std::string problems_of(const std::string& schedule,
                        const std::vector<std::string>& overrides = {}) {
  try {
    parsed(schedule, overrides);
  } catch (const ConfigError& error) {
    return error.problems()[0].message;
  }
  return {};
}

TEST_CASE("a percentage is of train.steps, at any place of the config") {
  CHECK(parsed("kind: cosine, warmup_steps: 5%").schedule.warmup_steps == 100);  // of 2000
  const Config config = parsed("kind: cosine, warmup_steps: 5%, decay_steps: 50%",
                               {"train.steps=300", "train.save_every=10%"});
  CHECK(config.schedule.warmup_steps == 15);
  CHECK(config.schedule.decay_steps == 150);
  CHECK(config.train.save_every == 30);
  CHECK(describe_percentages(config) ==
        "of 300 steps: schedule.warmup_steps 5% = 15, schedule.decay_steps 50% = 150, "
        "train.save_every 10% = 30");
  CHECK_FALSE(describe_percentages(Config()).has_value());
}

TEST_CASE("a percentage is rounded to the nearest number, to 0 only for the warm-up of a cosine") {
  const auto warmup = [](const std::string& kind, const std::string& percent,
                         const std::string& steps) {
    return parsed("kind: " + kind + ", warmup_steps: " + percent, {"train.steps=" + steps})
        .schedule.warmup_steps;
  };
  CHECK(warmup("cosine", "6.67%", "3000") == 200);
  CHECK(warmup("cosine", "25%", "10") == 3);
  CHECK(warmup("cosine", "5%", "1") == 0);
  CHECK(warmup("inverse_sqrt", "5%", "1") == 1);
  const Config config =
      parsed("kind: cosine, decay_steps: 1%", {"train.log_every=1%", "train.steps=10"});
  CHECK(config.schedule.decay_steps == 1);
  CHECK(config.train.log_every == 1);
}

TEST_CASE("the last value of a key applies, number or percentage") {
  CHECK(
      parsed("kind: cosine, warmup_steps: 5%", {"schedule.warmup_steps=7"}).schedule.warmup_steps ==
      7);
  CHECK(
      parsed("kind: cosine, warmup_steps: 7", {"schedule.warmup_steps=5%"}).schedule.warmup_steps ==
      100);
}

TEST_CASE("percentages of a config are written as numbers") {
  const std::string dumped = dump_config(parsed("kind: cosine, warmup_steps: 5%"));
  CHECK(dumped.find("\n  warmup_steps: 100\n") != std::string::npos);
  CHECK(parse_config(dumped, "dumped").step_percentages.empty());
}

TEST_CASE("percentages are checked by the rules of their numbers") {
  CHECK(problems_of("kind: cosine, warmup_steps: 60%, decay_steps: 50%") ==
        "`decay_steps` is 1000, not after `warmup_steps` (1200)");
  CHECK(problems_of("kind: constant, warmup_steps: 5%").starts_with("`warmup_steps` is used with"));
  CHECK(problems_of("kind: cosine", {"train.batch_size=5%"}) ==
        "expected a whole number from 1 to 1000000, found \"5%\"");
}

TEST_CASE("a resumed run keeps the numbers of percentages in a file, unless overridden") {
  const Config before = parsed("kind: cosine, warmup_steps: 5%, decay_steps: 100%");
  const auto kept = [&](const std::vector<std::string>& overrides,
                        const std::vector<std::string>& allowed = {}) {
    Config config = parsed("kind: cosine, warmup_steps: 5%, decay_steps: 100%", overrides);
    keep_resolved_percentages(config, before, allowed);
    return config;
  };
  CHECK(kept({"train.steps=4000"}).schedule.warmup_steps == 100);
  CHECK(kept({"train.steps=4000"}).schedule.decay_steps == 2000);
  CHECK(kept({"train.steps=4000"}).step_percentages.empty());
  CHECK(kept({"train.steps=4000"}, {"schedule.decay_steps"}).schedule.decay_steps == 4000);
  CHECK(kept({"train.steps=4000", "schedule.warmup_steps=5%"}).schedule.warmup_steps == 200);
  // Another schedule has other warm-ups.
  Config other = parsed("kind: inverse_sqrt, warmup_steps: 10%");
  keep_resolved_percentages(other, before, {"schedule.kind"});
  CHECK(other.schedule.warmup_steps == 200);
}

}  // namespace
}  // namespace tapestry
