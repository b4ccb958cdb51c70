#include "train/run_length.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/train/error_text.h"
#include "train/config/error.h"

namespace tapestry {
namespace {

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

TEST_CASE("epochs are as many steps as their batches need") {
  CHECK(steps_of(parsed("epochs: 3"), 2) == 6);
  CHECK(steps_of(parsed("epochs: 3"), 3) == 9);
  CHECK(steps_of(parsed("epochs: 3, accumulate: 2"), 3) == 5);
  CHECK(steps_of(parsed("epochs: 1, accumulate: 7"), 1) == 1);
  CHECK(steps_of(parsed("steps: 17"), 3) == 17);
}

TEST_CASE("a resumed run takes the remaining steps of its epochs") {
  CHECK(steps_of(parsed("epochs: 3"), 3, 5, {.epoch = 1, .batch = 2}) == 9);
  CHECK(steps_of(parsed("epochs: 3"), 3, 4, {.epoch = 2, .batch = 0}) == 7);  // a new batch size
  CHECK(steps_of(parsed("epochs: 1"), 3, 5, {.epoch = 1, .batch = 2}) == 5);  // finished
  CHECK(steps_of(parsed("epochs: 3, accumulate: 2"), 3, 2, {.epoch = 1, .batch = 1}) == 5);
}

TEST_CASE("epochs and steps exclude each other, and the command line replaces the file") {
  const std::string refusal = test::error_text<ConfigError>([] { parsed("steps: 5, epochs: 3"); });
  CHECK(refusal ==
        "c:1:34: `epochs` and `steps` both give the length of the run\n"
        "    train: {batch_size: 4, steps: 5, epochs: 3}\n"
        "                                     ^~~~~~\n"
        "hint: remove one of them\nhint: ");
  CHECK_THROWS_AS(parsed("seed: 1", {"train.steps=5", "train.epochs=3"}), ConfigError);
  CHECK(parsed("steps: 5", {"train.epochs=3"}).train.epochs == 3);
  CHECK(parsed("epochs: 3", {"train.steps=5"}).train.epochs == 0);
  CHECK(parsed("epochs: 3", {"train.steps=5"}).train.steps == 5);
  CHECK(parsed("steps: 5, epochs: 0").train.steps == 5);
}

TEST_CASE("percentages refer to the steps of the epochs") {
  Config config =
      parsed("epochs: 10", {}, "schedule: {kind: cosine, warmup_steps: 20%, decay_steps: 50%}\n");
  resolve_epochs(config, 10);
  CHECK(config.train.steps == 100);
  CHECK(config.schedule.warmup_steps == 20);
  CHECK(config.schedule.decay_steps == 50);
}

TEST_CASE("rules about the steps of a run wait until its epochs have become steps") {
  // Warm-ups that are longer than the default of train.steps, but not than 300 epochs.
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

TEST_CASE("epochs that leave no step for the decay, or are too many steps, are refused") {
  Config short_run = parsed("epochs: 2", {}, "schedule: {kind: cosine, warmup_steps: 20}\n");
  CHECK(test::error_text<ConfigError>([&] { resolve_epochs(short_run, 10); }) ==
        "schedule.warmup_steps: found 20, which leaves no step for the decay, which ends at step "
        "20\nhint: give it as a percentage such as 5%, or raise train.epochs\nhint: ");
  Config long_run = parsed("epochs: 1000000");
  CHECK_THROWS_AS(resolve_epochs(long_run, 10'000'000), ConfigError);
}

}  // namespace
}  // namespace tapestry
