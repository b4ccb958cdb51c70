// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/profiler.h"
#include "data/io/error.h"
#include "tests/support/values.h"
#include "tests/train/error_text.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/report/report_data.h"

namespace tapestry {
namespace {

using Sentence = std::vector<std::int32_t>;
using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

/// An uninterrupted run, for comparison.
const TinyRun& uninterrupted() {
  static TinyRun run;
  if (run.directory().steps().empty()) run.train_to(tiny_steps);
  return run;
}

void check_same_end(const TinyRun& run) {
  CHECK(run.snapshot(tiny_steps) == uninterrupted().snapshot(tiny_steps));
  CHECK(run.checkpoint_bytes(tiny_steps) == uninterrupted().checkpoint_bytes(tiny_steps));
  CHECK(run.metrics() == uninterrupted().metrics());
}

TEST_CASE("a run stopped after any step and resumed is bit-identical to an uninterrupted run") {
  // An epoch of 22 pairs has six batches, and a step has two batches: 24 batches are 4 epochs.
  REQUIRE(uninterrupted().snapshot(tiny_steps).get_scalar<std::uint64_t>("train/epoch") == 4);
  REQUIRE(uninterrupted().snapshot(9).get_scalar<std::uint64_t>("train/running_tokens") > 0);
  for (std::size_t stop = 1; stop < tiny_steps; ++stop) {
    CAPTURE(stop);
    TinyRun run;
    run.train_to(stop);
    REQUIRE(run.directory().steps().back() == stop);
    run.train_to(tiny_steps);
    check_same_end(run);
  }
}

TEST_CASE("a run resumed repeatedly, or from an older checkpoint, ends with the same bytes") {
  TinyRun repeatedly, older;
  for (const std::size_t stop : {2, 3, 7, 8, 12}) repeatedly.train_to(stop);
  check_same_end(repeatedly);
  older.train_to(7);
  std::filesystem::remove(older.directory().checkpoint_path(7));
  older.train_to(tiny_steps);
  check_same_end(older);
}

TEST_CASE("a profiler does not change the bytes of a run, and lists each part of a step") {
  TinyRun run;
  const Profiler profiler;
  run.train_to(tiny_steps);
  // Reads the profile before the comparison, which may train another run.
  const Profile profile = profiler.profile();
  check_same_end(run);

  const auto calls = [&profile](const std::string& name) {
    std::uint64_t sum = 0;
    for (const ProfileRow& row : profile.rows) sum += row.name == name ? row.calls : 0;
    return sum;
  };
  CHECK(calls("batch preparation") == tiny_steps);
  CHECK(calls("gradient norm") == tiny_steps);
  CHECK(calls("optimizer step") == tiny_steps);
  CHECK(calls("validation and decoding") == 3);
  CHECK(calls("saving") >= 4);
}

TEST_CASE("a resumed run with batches of tokens has the same bytes on any number of threads") {
  Config config = tiny_config();
  config.train.batch_tokens = 21;
  const auto train_to = [&](TinyRun& run, std::size_t step) {
    config.train.steps = step;
    run.train(config);
  };
  TinyRun whole, by_size;
  train_to(whole, tiny_steps);
  CHECK_FALSE(whole.checkpoint_bytes(tiny_steps) == uninterrupted().checkpoint_bytes(tiny_steps));
  CHECK(whole.snapshot(tiny_steps).get_scalar<std::uint64_t>("train/epoch") > 2);
  for (std::size_t stop = 1; stop < tiny_steps; ++stop) {
    CAPTURE(stop);
    TinyRun run;
    kernels::set_num_threads(2);
    train_to(run, stop);
    kernels::set_num_threads(0);
    train_to(run, tiny_steps);
    CHECK(run.checkpoint_bytes(tiny_steps) == whole.checkpoint_bytes(tiny_steps));
    CHECK(run.metrics() == whole.metrics());
  }
}

TEST_CASE("a different seed gives a different final checkpoint") {
  Config config = tiny_config();
  config.train.seed = 2;
  TinyRun run;
  run.train(config);
  CHECK_FALSE(run.snapshot(tiny_steps).at("parameters/output.bias") ==
              uninterrupted().snapshot(tiny_steps).at("parameters/output.bias"));
}

/// A config large enough to divide the work of a step between threads.
Config config_for_threads() {
  Config config = tiny_config();
  config.data.generated.train_size = 300;
  config.model.d_model = 64;
  config.model.d_ff = 128;
  config.train.batch_size = 128;
  config.train.steps = 4;
  return config;
}

TEST_CASE("a run has the same bytes on one or two threads, even if a resume changes the number") {
  TinyRun one, two, both;
  Config config = config_for_threads();
  kernels::set_num_threads(1);
  one.train(config);
  kernels::set_num_threads(2);
  two.train(config);
  config.train.steps = 2;
  both.train(config);
  kernels::set_num_threads(1);
  config.train.steps = 4;
  both.train(config);
  kernels::set_num_threads(0);
  CHECK(two.checkpoint_bytes(4) == one.checkpoint_bytes(4));
  CHECK(two.metrics() == one.metrics());
  CHECK(both.checkpoint_bytes(4) == one.checkpoint_bytes(4));
}

TEST_CASE("metrics have a row for each logging period and validation, with the epoch of the step") {
  std::string found;
  for (const auto& row : uninterrupted().metrics_rows()) {
    found += row[2] + " " + row[0] + " of epoch " + row[1] + "\n";
  }
  // An epoch has three steps, and step 12 is the last step of epoch 4.
  CHECK(found ==
        "validation 4 of epoch 2\ntrain 5 of epoch 2\nvalidation 8 of epoch 3\n"
        "train 10 of epoch 4\ntrain 12 of epoch 4\nvalidation 12 of epoch 4\n");
}

TEST_CASE("the latest checkpoints and the best checkpoint are kept") {
  Config config = tiny_config();
  config.train.keep_last = 2;
  TinyRun run;
  run.train(config);
  const auto best = run.snapshot(tiny_steps).get_scalar<std::uint64_t>("train/best_step");
  std::vector<std::uint64_t> steps = run.directory().steps();
  CHECK(std::ranges::count(steps, best) == 1);
  std::erase(steps, best);
  REQUIRE_FALSE(steps.empty());
  CHECK(steps.size() <= 2);
}

TEST_CASE("without validation data a run is saved and has no best step") {
  Config config = tiny_config();
  config.data.generated.validation_size = 0;
  config.train.steps = 3;
  TinyRun run;
  run.train(config);
  CHECK(run.directory().steps() == std::vector<std::uint64_t>{3});
  CHECK(std::isinf(run.snapshot(3).get_scalar<double>("train/best_loss")));
  CHECK(run.metrics_rows("validation").empty());
}

TEST_CASE("sentences with more tokens than positions are rejected in each part of the data") {
  TinyRun run;
  const Config config = tiny_config();  // positions for 7 tokens and <eos>
  const Corpus good = load_corpus(config.data);
  const auto rejected = [&](const Corpus& corpus) {
    return test::error_text<DataError>(
        [&] { const Trainer trainer(config, corpus, run.directory(), run.progress()); });
  };
  struct Row {
    std::vector<Example> Corpus::*part;
    std::size_t place;
    Example example;
    const char* named;
  };
  const Example longest{Sentence(7, 4), Sentence(7, 4)};
  for (const auto& [part, place, example, named] :
       {Row{&Corpus::train, 2, {{4}, Sentence(8, 4)}, "training pair 3: found 9 tokens"},
        Row{&Corpus::validation, 0, {{4}, Sentence(8, 4)}, "validation pair 1: found 9 tokens"},
        Row{&Corpus::test, 3, {Sentence(8, 4), {4}}, "test pair 4: found 9 tokens"},
        Row{&Corpus::train, 2, longest, "nothing was thrown"}}) {
    Corpus corpus = good;
    (corpus.*part)[place] = example;
    CHECK(rejected(corpus).starts_with(named));
  }
}

TEST_CASE("a finished run that is resumed writes nothing") {
  TinyRun run;
  run.train_to(2);
  const ArrayStore end = run.snapshot(2);
  std::filesystem::remove(run.directory().checkpoint_path(2));
  std::filesystem::remove(run.directory().path() / "metrics.csv");

  Config config = tiny_config();
  config.train.steps = 2;
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  trainer.resume(end);
  REQUIRE(trainer.finished());
  trainer.run();
  CHECK(run.directory().steps().empty());
  CHECK_FALSE(std::filesystem::exists(run.directory().path() / "metrics.csv"));
}

TEST_CASE("a run that is stopped before its first step is saved and can be resumed") {
  TinyRun run;
  const Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  RunSignals signals;
  std::raise(SIGTERM);
  CHECK(trainer.run({.signals = &signals}) == RunEnd::signal);
  CHECK(trainer.step() == 0);
  REQUIRE(run.directory().steps() == std::vector<std::uint64_t>{0});
  run.train_to(tiny_steps);
  check_same_end(run);
}

TEST_CASE("reports are due after every n-th validation and at the end") {
  const auto reported = [&](std::size_t every, std::size_t steps) {
    Config config = test::tiny_config();  // validates after steps 4, 8 and 12
    config.train.report_every = every;
    config.train.steps = steps;
    TinyRun run;
    const auto report = run.directory().path() / report_file_name;
    std::vector<std::uint64_t> at;
    for (std::uint64_t step = 1; step <= steps; ++step) {
      run.train(config, {.last_step = step});
      if (!std::filesystem::exists(report)) continue;
      at.push_back(step);
      if (step == steps) {  // the last report is written after the last checkpoint
        CHECK(std::filesystem::last_write_time(report) >=
              std::filesystem::last_write_time(run.directory().checkpoint_path(step)));
      }
      std::filesystem::remove(report);
    }
    return at;
  };
  CHECK(reported(1, 12) == std::vector<std::uint64_t>{4, 8, 12});
  CHECK(reported(2, 12) == std::vector<std::uint64_t>{8, 12});
  CHECK(reported(3, 14) == std::vector<std::uint64_t>{12, 14});
  CHECK(reported(0, 12).empty());
}

}  // namespace
}  // namespace tapestry
