#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/train/tiny_run.h"
#include "train/system/interruptions.h"
#include "train/tasks/data_source.h"

/// What a run does when a signal or the time limit comes in the middle of a step or a validation.
namespace tapestry {
namespace {

using std::chrono::microseconds;
using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

/// Trains, or resumes, and raises SIGTERM after a while.
RunEnd train_with_signal(TinyRun& run, const Config& config, microseconds delay) {
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  if (const auto newest = run.directory().read_newest()) trainer.resume(newest->arrays);
  RunSignals signals;
  const std::jthread other([delay] {
    std::this_thread::sleep_for(delay);
    std::raise(SIGTERM);
  });
  return trainer.run({.signals = &signals});
}

TEST_CASE("a run interrupted at any moment and resumed has the bytes of an uninterrupted run") {
  Config config = tiny_config();
  config.train.validate_every = 2;
  TinyRun uninterrupted;
  uninterrupted.train(config);
  for (const int delay : {0, 100, 300, 700, 1500, 3000, 6000}) {
    CAPTURE(delay);
    TinyRun run;
    for (int i = 0; i < 4; ++i) train_with_signal(run, config, microseconds(delay));
    run.train(config);
    CHECK(run.checkpoint_bytes(tiny_steps) == uninterrupted.checkpoint_bytes(tiny_steps));
    CHECK(run.metrics() == uninterrupted.metrics());
  }
}

TEST_CASE("a signal ends a long step, which is not counted") {
  // Seconds of preparing batches, seconds of computing gradients.
  for (const std::size_t accumulate : {1'000'000, 50'000}) {
    CAPTURE(accumulate);
    Config config = tiny_config();
    config.train.accumulate = accumulate;
    TinyRun run;
    CHECK(train_with_signal(run, config, microseconds(200'000)) == RunEnd::signal);
    CHECK(run.directory().steps() == std::vector<std::uint64_t>{0});
    const ArrayStore saved = run.snapshot(0);
    CHECK(saved.get_scalar<std::uint64_t>("train/epoch") == 0);
    CHECK(saved.get_scalar<std::uint64_t>("train/batch") == 0);
  }
}

TEST_CASE("the time limit ends a long step") {
  Config config = tiny_config();
  config.train.accumulate = 1'000'000;
  TinyRun run;
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  RunSignals signals;
  const TimeLimit limit(TimeLimit::Clock::now(), std::chrono::seconds(1));
  CHECK(trainer.run({.signals = &signals, .time = limit}) == RunEnd::time);
  CHECK(trainer.step() == 0);
}

TEST_CASE("a signal while the last checkpoints are averaged ends the run as stopped by a signal") {
  TinyRun run;
  const Corpus corpus = load_corpus(tiny_config().data);
  Trainer trainer(tiny_config(), corpus, run.directory(), run.progress());
  RunSignals signals;
  SUBCASE("averaged") {
    trainer.average_with([] { return true; });
    CHECK(trainer.run({.signals = &signals}) == RunEnd::finished);
  }
  SUBCASE("cancelled") {
    trainer.average_with([] {
      std::raise(SIGTERM);
      return false;
    });
    CHECK(trainer.run({.signals = &signals}) == RunEnd::signal);
  }
  CHECK(run.directory().steps().back() == tiny_steps);
}

std::string metrics_text(const TinyRun& run) {
  const auto bytes = run.metrics();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// "train 5", "validation 4" ... of metrics.csv.
std::vector<std::string> reported_steps(const TinyRun& run) {
  std::vector<std::string> found;
  const std::string text = metrics_text(run);
  for (std::size_t at = text.find('\n') + 1; at < text.size(); at = text.find('\n', at) + 1) {
    const std::size_t step_end = text.find(',', at);
    const std::size_t split = text.find(',', step_end + 1) + 1;
    found.push_back(text.substr(split, text.find(',', split) - split) + " " +
                    text.substr(at, step_end - at));
  }
  return found;
}

TEST_CASE("the last step is logged and validated, whatever the intervals") {
  TinyRun run;
  run.train_to(7);
  CHECK(reported_steps(run) ==
        std::vector<std::string>{"validation 4", "train 5", "train 7", "validation 7"});
}

TEST_CASE("a resumed run drops the rows that its end had added") {
  TinyRun run;
  run.train_to(7);
  run.train_to(8);
  CHECK(reported_steps(run) ==
        std::vector<std::string>{"validation 4", "train 5", "train 8", "validation 8"});
  run.train_to(10);
  CHECK(reported_steps(run) == std::vector<std::string>{"validation 4", "train 5", "validation 8",
                                                        "train 10", "validation 10"});
}

TEST_CASE("the validation of the last step can be the best") {
  TinyRun run;
  run.train_to(7);
  CHECK(run.snapshot(7).get_scalar<std::uint64_t>("train/best_step") == 7);
  run.train_to(9);
  CHECK(run.directory().read_newest()->step == 9);
}

}  // namespace
}  // namespace tapestry
