#include "train/loop/trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/profiler.h"
#include "data/io/error.h"
#include "tests/support/values.h"
#include "tests/train/error_text.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

using Sentence = std::vector<std::int32_t>;
using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

/// One run of all steps without a stop, that the others are compared with.
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

/// The columns of the rows of a table that are of `split`.
std::vector<std::vector<std::string>> rows_in_split(const TinyRun& run, const std::string& split) {
  const auto bytes = run.metrics();
  std::istringstream table(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(table, line);) {
    std::istringstream cells(line);
    std::vector<std::string> row;
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
    if (row[2] == split) rows.push_back(row);
  }
  return rows;
}

TEST_CASE("a run stopped after any step and resumed ends with the bytes of an uninterrupted run") {
  for (std::size_t stop = 1; stop < tiny_steps; ++stop) {
    CAPTURE(stop);
    TinyRun run;
    run.train_to(stop);
    REQUIRE(run.directory().steps().back() == stop);
    run.train_to(tiny_steps);
    check_same_end(run);
  }
}

TEST_CASE("a run resumed repeatedly ends with the bytes of an uninterrupted run") {
  TinyRun run;
  for (const std::size_t stop : {2, 3, 7, 8, 12}) run.train_to(stop);
  check_same_end(run);
}

TEST_CASE("a run resumed from a checkpoint before its newest ends with the same bytes") {
  TinyRun run;
  run.train_to(7);
  std::filesystem::remove(run.directory().checkpoint_path(7));
  run.train_to(tiny_steps);
  check_same_end(run);
}

TEST_CASE("the uninterrupted run has four epochs whose ends are within steps") {
  const ArrayStore end = uninterrupted().snapshot(tiny_steps);
  // Six batches of the 22 pairs an epoch, two batches a step: the 24 batches are 4 epochs.
  CHECK(end.get_scalar<std::uint64_t>("train/epoch") == 4);
  CHECK(end.get_scalar<std::uint64_t>("train/batch") == 0);
  CHECK(uninterrupted().snapshot(9).get_scalar<std::uint64_t>("train/running_tokens") > 0);
}

TEST_CASE("a run under a profiler has the bytes of one without, and a row for each step it takes") {
  TinyRun run;
  const Profiler profiler;
  run.train_to(tiny_steps);
  // Before the comparison, which may train the other run.
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

TEST_CASE("a run with batches of tokens is resumed with the same bytes, on any number of threads") {
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

TEST_CASE("another seed gives another final checkpoint") {
  Config config = tiny_config();
  config.train.seed = 2;
  TinyRun run;
  run.train(config);
  CHECK_FALSE(run.snapshot(tiny_steps).at("parameters/output.bias") ==
              uninterrupted().snapshot(tiny_steps).at("parameters/output.bias"));
}

/// Big enough for the work of a step to be split between threads.
Config config_for_threads() {
  Config config = tiny_config();
  config.data.generated.train_size = 300;
  config.model.d_model = 64;
  config.model.d_ff = 128;
  config.train.batch_size = 128;
  config.train.steps = 4;
  return config;
}

TEST_CASE("a run has the same bytes on one thread, on two, and resumed on another number") {
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

TEST_CASE("training reduces the loss, in training and on held-out data") {
  Config config = tiny_config();
  config.data.generated.train_size = 400;
  config.model.dropout = 0.0;
  config.train.batch_size = 16;
  config.train.steps = 60;
  config.train.log_every = config.train.validate_every = config.train.save_every = 20;
  TinyRun run;
  run.train(config);
  for (const char* split : {"train", "validation"}) {
    CAPTURE(split);
    const auto rows = rows_in_split(run, split);
    REQUIRE(rows.size() == 3);
    CHECK(std::stod(rows[2][3]) < std::stod(rows[0][3]) - 0.2);
  }
}

TEST_CASE("metrics have a row for each period, with the epoch of the step") {
  const auto training = rows_in_split(uninterrupted(), "train");
  const auto validation = rows_in_split(uninterrupted(), "validation");
  REQUIRE(training.size() == 3);
  CHECK(training[0][0] == "5");
  CHECK(training[1][0] == "10");
  CHECK(training[2][0] == "12");
  REQUIRE(validation.size() == 3);
  // Three steps an epoch: step 12 is the last of epoch 4.
  CHECK(validation[0][0] == "4");
  CHECK(validation[0][1] == "2");
  CHECK(validation[2][0] == "12");
  CHECK(validation[2][1] == "4");
}

TEST_CASE("the latest checkpoints and the best one are kept") {
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

/// Half a step's batch at a time, or all of it.
Config config_of_four_pairs(std::size_t accumulate) {
  Config config = tiny_config();
  config.data.generated.train_size = 4;
  config.data.generated.validation_size = 0;
  config.model.dropout = 0.0;
  // Adam divides the gradient by its size, and with it what rounding leaves of a zero.
  config.optimizer = {.kind = OptimizerKind::sgd, .momentum = 0.9};
  config.train.dtype = DType::float64;
  config.train.accumulate = accumulate;
  config.train.batch_size = 4 / accumulate;
  config.train.steps = 3;
  return config;
}

TEST_CASE("gradients of two half batches add up to that of the whole batch") {
  TinyRun whole, halves;
  whole.train(config_of_four_pairs(1));
  halves.train(config_of_four_pairs(2));
  const ArrayStore expected = whole.snapshot(3);
  const ArrayStore found = halves.snapshot(3);
  double worst = 0.0;
  for (const auto& [path, array] : expected) {
    if (!path.starts_with("parameters/")) continue;
    const auto a = expected.get<double>(path);
    const auto b = found.get<double>(path);
    for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  CHECK(worst < 1e-12);
}

TEST_CASE("without validation data a run is saved and has no best step") {
  TinyRun run;
  run.train(config_of_four_pairs(1));
  CHECK(run.directory().steps() == std::vector<std::uint64_t>{3});
  CHECK(std::isinf(run.snapshot(3).get_scalar<double>("train/best_loss")));
  CHECK(rows_in_split(run, "validation").empty());
}

TEST_CASE("sentences longer than the positions are refused, in each part of the data") {
  TinyRun run;
  const Config config = tiny_config();  // positions for 7 tokens and <eos>
  const Corpus good = load_corpus(config.data);
  const Example too_long{{4}, Sentence(8, 4)};
  const auto refusal = [&](const Corpus& corpus) {
    return test::error_text<DataError>(
        [&] { const Trainer trainer(config, corpus, run.directory(), run.progress()); });
  };
  const std::string rest =
      ": found 9 tokens with <eos>, expected at most 8 (model.max_length)\n"
      "hint: set model.max_length to 9 or more; data.max_tokens leaves long training pairs out";

  Corpus corpus = good;
  corpus.train[2] = too_long;
  CHECK(refusal(corpus) == "training pair 3" + rest);
  corpus = good;
  corpus.validation[0] = too_long;
  CHECK(refusal(corpus) == "validation pair 1" + rest);
  corpus = good;
  corpus.test[3] = {too_long.target, too_long.source};
  CHECK(refusal(corpus) == "test pair 4" + rest);
  corpus = good;
  corpus.train[2] = {Sentence(7, 4), Sentence(7, 4)};
  CHECK(refusal(corpus) == "nothing was thrown");
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
  Config config = test::tiny_config();  // validates after the steps 4, 8 and 12
  const Corpus corpus = load_corpus(config.data);
  const auto reported = [&](std::size_t every, std::size_t steps) {
    config.train.report_every = every;
    config.train.steps = steps;
    const test::TemporaryFolder folder;
    RunDirectory directory(folder.path());
    directory.create();
    Progress progress(nullptr, 0, steps);
    Trainer trainer(config, corpus, directory, progress);
    std::vector<std::uint64_t> at;
    trainer.report_with([&] {
      at.push_back(trainer.step());
      // The last one is written after the last checkpoint.
      if (trainer.finished()) CHECK(directory.steps().back() == trainer.step());
    });
    trainer.run();
    return at;
  };
  CHECK(reported(1, 12) == std::vector<std::uint64_t>{4, 8, 12});
  CHECK(reported(2, 12) == std::vector<std::uint64_t>{8, 12});
  CHECK(reported(3, 14) == std::vector<std::uint64_t>{12, 14});
  CHECK(reported(0, 12).empty());
}

}  // namespace
}  // namespace tapestry
