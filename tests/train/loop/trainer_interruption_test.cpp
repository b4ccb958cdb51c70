// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "data/io/file.h"
#include "tests/train/tiny_run.h"
#include "train/system/interruptions.h"
#include "train/tasks/data_source.h"

/// Tests runs in which a signal or the time limit interrupts a step or a validation.
namespace tapestry {
namespace {

using std::chrono::microseconds;
using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

/// Trains, or resumes a run, and raises SIGTERM after `delay`.
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

TEST_CASE("a run interrupted at any moment and resumed is bit-identical to an uninterrupted run") {
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
  // Preparing the batches takes seconds, or computing the gradients takes seconds.
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

/// Raises SIGTERM after the rename of the last checkpoint if `interrupts` is set.
class InterruptingFileSystem : public FileSystem {
 public:
  bool interrupts = false;

  int rename(const char* from, const char* to) override {
    const int result = FileSystem::rename(from, to);
    if (interrupts && std::string_view(to).ends_with("step-00000012.h5")) std::raise(SIGTERM);
    return result;
  }
};

TEST_CASE("a signal while the last checkpoints are averaged cancels averaging and ends the run") {
  Config config = tiny_config();
  config.train.average_last = 2;
  const test::TemporaryFolder folder;
  InterruptingFileSystem files;
  RunDirectory directory(folder / "run", files);
  directory.create();
  directory.lock();
  const Corpus corpus = load_corpus(config.data);
  Progress progress(nullptr, 0, tiny_steps);
  Trainer trainer(config, corpus, directory, progress);
  RunSignals signals;
  SUBCASE("without a signal") {
    CHECK(trainer.run({.signals = &signals}) == RunEnd::finished);
    CHECK(std::filesystem::exists(directory.average_path()));
  }
  SUBCASE("with a signal") {
    files.interrupts = true;
    CHECK(trainer.run({.signals = &signals}) == RunEnd::signal);
    CHECK_FALSE(std::filesystem::exists(directory.average_path()));
  }
  CHECK(directory.steps().back() == tiny_steps);
}

/// The split and the step of each row of metrics.csv, such as "train 5".
std::vector<std::string> reported_steps(const TinyRun& run) {
  std::vector<std::string> found;
  for (const auto& row : run.metrics_rows()) found.push_back(row[2] + " " + row[0]);
  return found;
}

TEST_CASE("the last step is logged and validated, and a resumed run drops these rows") {
  TinyRun run;
  for (const auto& [step, rows] : std::vector<std::pair<std::size_t, std::vector<std::string>>>{
           {7, {"validation 4", "train 5", "train 7", "validation 7"}},
           {8, {"validation 4", "train 5", "train 8", "validation 8"}},
           {10, {"validation 4", "train 5", "validation 8", "train 10", "validation 10"}}}) {
    run.train_to(step);
    CHECK(reported_steps(run) == rows);
    const auto best = run.snapshot(step).get_scalar<std::uint64_t>("train/best_step");
    if (step == 7) CHECK(best == 7);  // the validation of the last step can be the best
  }
}

}  // namespace
}  // namespace tapestry
