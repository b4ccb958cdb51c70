// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "data/batch_schedule.h"
#include "tests/support/contains.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/values.h"
#include "tests/train/error_text.h"
#include "tests/train/program.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/loop/trainer.h"
#include "train/recording/run_events.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

/// Tests runs with non-finite losses, gradients and weights, and runs that diverge.
namespace tapestry {
namespace {

using test::contains;
using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

/// One sentence per step, so that only some steps contain a given symbol.
Config one_sentence_a_step(OnNan on_nan) {
  Config config = tiny_config();
  config.train.batch_size = config.train.accumulate = 1;
  config.train.steps = 20;
  config.train.on_nan = on_nan;
  config.train.max_nan_steps = 20;
  return config;
}

std::string poisoned_run(TinyRun& run, const Config& config) {
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  test::poison(trainer.model());
  trainer.record_to(run.directory().path());
  return test::error_text<NumericError>([&] { trainer.run(); });
}

/// Checks that the digests contain each step once, in order, and that the last digests match the
/// checkpoint.
void check_digests(TinyRun& run, std::uint64_t steps) {
  const DigestTable table = read_digests(read_events_file(run.directory().path()));
  REQUIRE(table.steps.size() == steps);
  CHECK(table.steps.front() == 1);
  CHECK(table.steps.back() == steps);
  const ArrayStore end = run.snapshot(steps);
  for (std::size_t i = 0; i < table.names.size(); ++i) {
    CHECK(table.row(steps - 1)[i] ==
          digest_of_values(end.at("parameters/" + table.names[i]).bytes));
  }
}

/// The first step makes weights infinite.
Config with_infinite_steps() {
  Config config = tiny_config();
  config.optimizer.kind = OptimizerKind::sgd;
  config.train.clip_norm = 0;
  config.schedule = {.learning_rate = 1e308};  // infinite as a float
  config.train.save_every = 1;
  return config;
}

/// A trainer whose loss is NaN, on a file system that fails on demand.
struct NanRun {
  explicit NanRun(const Config& config) : corpus(load_corpus(config.data)) {
    directory.create();
    trainer.emplace(config, corpus, directory, progress);
    Tensor bias = trainer->model().parameters.find("output.bias")->tensor;
    bias.mutable_values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  }
  std::string error() {
    return test::error_text<NumericError>([&] { trainer->run(); });
  }

  test::TemporaryFolder folder;
  test::FaultyFileSystem files;
  RunDirectory directory{folder / "run", files};
  Progress progress{nullptr, 0, tiny_steps};
  Corpus corpus;
  std::optional<Trainer> trainer;
};

std::string history(const TinyRun& run, std::uint64_t step) {
  return run.snapshot(step).get_text("train/history");
}

TEST_CASE("a non-finite loss stops the run before any weight changes or is saved") {
  NanRun run(tiny_config());
  const auto weight = run.trainer->model().parameters.find("encoder.norm.weight")->tensor;
  const auto before = test::values_of(weight);
  std::string origin = "\n  see ";
  SUBCASE("with a report") {}
  SUBCASE("without a report, which cannot be stored") {
    run.files.fail_times("fsync", 1, EIO);
    origin = "\n  not stored: " + (run.folder / "run/non-finite-step-00000001.txt").string();
  }
  const std::string text = run.error();
  CHECK(text.starts_with("step 1: the loss is nan, expected a finite number\n  first in output: "));
  CHECK(contains(text, "\n  each of training pairs "));
  CHECK(contains(text, " causes it by itself" + origin));
  CHECK(contains(text, "\n  the weights are from step 0\nhint: no parameter has been updated "));
  CHECK(test::values_of(weight) == before);
  CHECK(run.trainer->step() == 0);
  CHECK(run.directory.steps().empty());
  CHECK_FALSE(std::filesystem::exists(run.directory.path() / "metrics.csv"));
  CHECK(std::filesystem::exists(run.directory.path() / "non-finite-step-00000001.txt") ==
        (origin == "\n  see "));
}

TEST_CASE("a non-finite gradient stops the run although the loss is finite") {
  TinyRun run;
  const Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  const auto weight = [&](const std::string& name) {
    Tensor tensor = trainer.model().parameters.find(name)->tensor;
    return tensor.mutable_values<float>();
  };
  // The inputs of the huge weight are 0, so the weight affects the gradient but not the loss.
  std::ranges::fill(weight("decoder.layers.0.self_attn.v_proj.weight"), 0.0f);
  std::ranges::fill(weight("decoder.layers.0.self_attn.v_proj.bias"), 0.0f);
  weight("decoder.layers.0.self_attn.out_proj.weight")[0] = 3e38f;
  for (float& value : weight("output.weight")) value *= 1e6f;
  const auto before = test::values_of(trainer.model().parameters.find("output.weight")->tensor);

  const std::string text = test::error_text<NumericError>([&] { trainer.run(); });
  CHECK(text.starts_with("step 1: the norm of the gradient is "));
  CHECK(contains(text, "\n  the weights are from step 0\n"));
  CHECK(test::values_of(trainer.model().parameters.find("output.weight")->tensor) == before);
  CHECK(run.directory().steps().empty());
}

TEST_CASE("examples at fault of a masked model are found with the masks of the batch") {
  Config config = tiny_config();
  config.data.task = "toy_sentences";
  config.model_kind = "masked_language_model";
  config.model.max_length = 32;
  config.train.batch_size = config.data.generated.train_size;  // each step is an epoch
  config.train.accumulate = 1;
  const Corpus corpus = load_corpus(config.data);
  const std::size_t words = corpus.target_vocabulary.size();
  std::vector<std::size_t> all(corpus.train.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  // The sentences in which `word` occurs unmasked in the epoch.
  const auto readers = [&](std::int32_t word, std::uint64_t epoch) {
    const Batch batch = make_batch(corpus.train, all, batch_rules(config, words, epoch));
    std::vector<std::size_t> sentences;
    for (std::size_t row = 0; row < batch.rows; ++row) {
      const auto begin =
          batch.input.begin() + static_cast<std::ptrdiff_t>(row * batch.target_length);
      const auto end = begin + static_cast<std::ptrdiff_t>(batch.target_length);
      if (std::find(begin, end, word) != end) sentences.push_back(batch.examples[row]);
    }
    return sentences;
  };
  std::int32_t word = first_word_id;
  while (readers(word, 0).empty() || readers(word, 0) == readers(word, 1)) ++word;

  TinyRun run;
  Trainer trainer(config, corpus, run.directory(), run.progress());
  Tensor embedding = trainer.model().parameters.find("embedding.weight")->tensor;
  const auto values = embedding.mutable_values<float>().subspan(
      static_cast<std::size_t>(word) * embedding.shape()[1], embedding.shape()[1]);
  std::ranges::fill(values, 3e38f);
  CHECK_FALSE(test::error_text<NumericError>([&] { trainer.run(); }).empty());
  const std::string report =
      test::read_text(run.directory().path() / "non-finite-step-00000001.txt");
  CHECK(contains(report, "Each of these sentences causes it by itself:"));
  const auto expected = readers(word, 0);
  for (const std::size_t i : all) {
    CAPTURE(i);
    CHECK(contains(report, "training sentence " + std::to_string(i + 1) + "\n") ==
          (std::ranges::find(expected, i) != expected.end()));
  }
}

TEST_CASE("the layer and the sentences at fault are named and stored") {
  TinyRun run;
  Config config = one_sentence_a_step(OnNan::stop);
  config.train.batch_size = 22;
  const std::string text = poisoned_run(run, config);
  CHECK(contains(text, "\n  first in source_embedding"));
  const std::string stored =
      test::read_text(run.directory().path() / "non-finite-step-00000001.txt");
  CHECK(contains(text, "non-finite-step-00000001.txt"));
  CHECK(stored.starts_with("step 1: the loss is nan\nsource_embedding"));
  CHECK(contains(stored, "Each of these pairs causes it by itself:\n"));

  const Corpus corpus = load_corpus(config.data);
  const auto last = static_cast<std::int32_t>(corpus.source_vocabulary.size()) - 1;
  std::size_t at_fault = 0;
  for (std::size_t i = 0; i < corpus.train.size(); ++i) {
    const bool expected = std::ranges::count(corpus.train[i].source, last) > 0;
    at_fault += expected ? 1 : 0;
    CHECK(contains(stored, "training pair " + std::to_string(i + 1) + "\n") == expected);
  }
  CHECK(at_fault > 0);
  CHECK(at_fault < corpus.train.size());
}

TEST_CASE("skipped steps change no weights, but they are counted and saved") {
  TinyRun run;
  const Config config = one_sentence_a_step(OnNan::skip);
  CHECK(poisoned_run(run, config) == "nothing was thrown");
  const ArrayStore end = run.snapshot(20);
  const auto updates = end.get_scalar<std::uint64_t>("optimizer/steps");
  CHECK(updates < 20);
  CHECK(updates > 0);
  check_digests(run, 20);
  const std::string events = history(run, 20);
  CHECK(static_cast<std::uint64_t>(std::ranges::count(events, '\n')) == 20 - updates);
  std::istringstream lines(events);
  std::uint64_t done = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::uint64_t before = std::stoull(line.substr(5));
    CHECK(before >= done);
    CHECK(line ==
          fmt::format("step {}: the loss is nan at step {}, which is skipped", before, before + 1));
    done = before + 1;
  }
}

TEST_CASE("train.max_nan_steps consecutive non-finite steps stop the run") {
  TinyRun run;
  Config config = one_sentence_a_step(OnNan::skip);
  config.train.batch_size = 22;  // every batch contains the symbol
  config.train.max_nan_steps = 2;
  const std::string text = poisoned_run(run, config);
  CHECK(text.starts_with("step 3: the loss is nan"));
  CHECK(contains(text, "\n  3 consecutive steps, train.max_nan_steps is 2\n"));
}

/// The history of a run that rolls back and is saved every few steps. A rollback also discards the
/// history since the last save.
std::string expected_history(const Config& config) {
  const Corpus corpus = load_corpus(config.data);
  const auto last = static_cast<std::int32_t>(corpus.source_vocabulary.size()) - 1;
  BatchSchedule schedule(corpus.train, 1, config.train.seed, batch_lengths(config));
  std::string history, saved_history;
  std::size_t step = 0, saved = 0;
  for (BatchPosition position; step < config.train.steps;) {
    const std::vector<std::int32_t>& source = corpus.train[schedule.at(position).front()].source;
    position = schedule.after(position);
    if (std::ranges::count(source, last) > 0) {
      history = saved_history +
                fmt::format(
                    "step {}: rolled back: the loss is nan at step {}; continues with epoch {}, "
                    "batch {}\n",
                    saved, step + 1, position.epoch + 1, position.batch + 1);
      step = saved;
    } else if (++step % config.train.save_every == 0) {
      saved = step;
      saved_history = history;
    }
  }
  return history;
}

TEST_CASE(
    "a rollback restores the last scheduled checkpoint and skips the data up to the failed step") {
  TinyRun run;
  const Config config = one_sentence_a_step(OnNan::rollback);
  CHECK(poisoned_run(run, config) == "nothing was thrown");
  const ArrayStore end = run.snapshot(20);
  CHECK(end.get_scalar<std::uint64_t>("optimizer/steps") == 20);
  const std::string events = history(run, 20);
  CHECK(events == expected_history(config));
  // Skipped batches advance the position in the data, but not the step.
  const auto epoch = end.get_scalar<std::uint64_t>("train/epoch");
  const auto batch = end.get_scalar<std::uint64_t>("train/batch");
  CHECK(22 * epoch + batch > 20);
  check_digests(run, 20);
}

TEST_CASE("runs that skip or roll back end with the same bytes after a stop at any step") {
  for (const OnNan on_nan : {OnNan::skip, OnNan::rollback}) {
    CAPTURE(static_cast<int>(on_nan));
    Config config = one_sentence_a_step(OnNan::rollback);  // saves the poisoned initial state
    TinyRun start, whole;
    config.train.steps = 1;
    poisoned_run(start, config);
    config.train.on_nan = on_nan;
    const auto continue_to = [&](TinyRun& run, std::size_t steps) {
      config.train.steps = steps;
      run.train(config);
    };
    whole.copy_checkpoint(start, 0);
    continue_to(whole, 20);
    for (std::size_t stop = 1; stop < 20; ++stop) {
      CAPTURE(stop);
      TinyRun stopped;
      stopped.copy_checkpoint(start, 0);
      continue_to(stopped, stop);
      continue_to(stopped, 20);
      CHECK(stopped.checkpoint_bytes(20) == whole.checkpoint_bytes(20));
    }
  }
}

/// Trains a poisoned run for one step. Its checkpoint is not a scheduled one.
void stop_after_poisoned_step(TinyRun& run) {
  Config config = one_sentence_a_step(OnNan::skip);
  config.train.steps = 1;
  config.train.save_every = config.train.validate_every = 100;
  REQUIRE(poisoned_run(run, config) == "nothing was thrown");
}

TEST_CASE("a run that rolls back completes even if any single save fails") {
  TinyRun start;
  stop_after_poisoned_step(start);
  Config config = one_sentence_a_step(OnNan::rollback);
  config.train.save_every = 1;
  const Corpus corpus = load_corpus(config.data);
  for (std::size_t saved = 2; saved < 19; saved += 3) {
    CAPTURE(saved);
    test::FaultyFileSystem files;
    const test::TemporaryFolder folder;
    RunDirectory directory(folder / "run", files);
    directory.create();
    std::filesystem::copy(start.directory().checkpoint_path(1), directory.checkpoint_path(1));
    Progress progress(nullptr, 1, 20);
    const auto train_to = [&](std::size_t step) {
      config.train.steps = step;
      Trainer trainer(config, corpus, directory, progress);
      trainer.resume(directory.read_newest()->arrays);
      return trainer.run();
    };
    train_to(saved);
    files.fail_times("rename", 1, ENOSPC);
    CHECK(train_to(20) == RunEnd::finished);
    CHECK(directory.steps().back() == 20);
  }
}

TEST_CASE("a run without a scheduled checkpoint rolls back to its newest checkpoint") {
  TinyRun run;
  stop_after_poisoned_step(run);
  Config config = one_sentence_a_step(OnNan::rollback);
  config.train.save_every = 4;
  run.train(config);
  CHECK(run.snapshot(20).get_scalar<std::uint64_t>("optimizer/steps") >= 19);
  CHECK(contains(history(run, 20), "step 1: rolled back: the loss is nan at step "));
}

/// Trains a poisoned run that saves valid checkpoints of steps 1 and 2.
void save_two_poisoned_steps(TinyRun& run) {
  Config config = one_sentence_a_step(OnNan::skip);
  config.train.steps = 2;
  config.train.save_every = 1;
  REQUIRE(poisoned_run(run, config) == "nothing was thrown");
}

/// Truncates the checkpoints of the steps `cut`, then continues from step 2 with rollback.
std::string continue_without_checkpoints(TinyRun& run, const std::vector<std::uint64_t>& cut,
                                         Progress& progress) {
  Config config = one_sentence_a_step(OnNan::rollback);
  config.train.save_every = config.train.validate_every = 100;
  config.train.max_nan_steps = 10;
  const ArrayStore snapshot = run.snapshot(2);
  for (const std::uint64_t step : cut) {
    std::filesystem::resize_file(run.directory().checkpoint_path(step), 1000);
  }
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), progress);
  trainer.resume(snapshot);
  return test::error_text<NumericError>([&] { trainer.run(); });
}

TEST_CASE("non-finite weights at a save cause a rollback, up to train.max_nan_steps") {
  TinyRun run;
  Config config = with_infinite_steps();
  config.train.on_nan = OnNan::rollback;
  config.train.max_nan_steps = 2;
  const test::TemporaryFolder folder;
  const std::string log = folder / "log";
  Progress progress(nullptr, 0, tiny_steps);
  progress.log_to(log);
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), progress);
  const std::string text = test::error_text<NumericError>([&] { trainer.run(); });
  const std::string found = " has a value that is not finite";
  REQUIRE(text.starts_with("step 1: "));
  const std::string name = text.substr(8, text.find(found) - 8);
  CHECK(trainer.model().parameters.find(name) != nullptr);
  CHECK(text.starts_with("step 1: " + name + found +
                         "\n  3 consecutive steps, train.max_nan_steps is 2\nhint: "));
  const std::string logged = test::read_text(log);
  CHECK(contains(logged, "  warning: step 1: " + name + found + "\n"));
  CHECK(contains(logged, "  rolled back to step 0\n"));
  CHECK(run.directory().steps() == std::vector<std::uint64_t>{0});
}

TEST_CASE("a rollback past a damaged checkpoint warns and uses the newest valid checkpoint") {
  TinyRun run;
  save_two_poisoned_steps(run);
  const test::TemporaryFolder folder;
  const std::string log = folder / "log";
  Progress progress(nullptr, 2, 20);
  progress.log_to(log);
  continue_without_checkpoints(run, {2}, progress);
  const std::string text = test::read_text(log);
  CHECK(contains(text, "step-00000002.h5: the checkpoint is truncated: "));
  CHECK(contains(text, "; another checkpoint is used\n"));
  CHECK(contains(text, "  rolled back to step 1\n"));
}

TEST_CASE("a rollback without a valid checkpoint reports both errors") {
  TinyRun run;
  save_two_poisoned_steps(run);
  const std::string text = continue_without_checkpoints(run, {1, 2}, run.progress());
  CAPTURE(text);
  CHECK(text.starts_with("the loss is nan at step "));
  CHECK(
      contains(text, "found 2 checkpoints, all unusable, expected at least one intact checkpoint"));
}

TEST_CASE("a run without a checkpoint to roll back to stops at the non-finite loss") {
  test::FaultyFileSystem files;
  const test::TemporaryFolder folder;
  RunDirectory directory(folder / "run", files);
  directory.create();
  Progress progress(nullptr, 0, 20);
  Config config = one_sentence_a_step(OnNan::rollback);
  config.train.batch_size = 22;  // every batch contains the symbol
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, directory, progress);
  test::poison(trainer.model());
  files.fail_times("rename", 1, ENOSPC);
  const std::string text = test::error_text<NumericError>([&] { trainer.run(); });
  CHECK(text.starts_with("the loss is nan at step 1; there is no checkpoint to go back to\n"));
}

TEST_CASE("non-finite weights are not saved, and the newest checkpoint is named") {
  Config config = with_infinite_steps();
  TinyRun run, resumed;
  std::string text = test::error_text<NumericError>([&] { run.train(config); });
  CHECK(text.starts_with("step 1: "));
  CHECK(contains(text, " is not finite; this state is not saved, there is no checkpoint yet\n"));
  CHECK(run.directory().steps().empty());

  config.schedule.learning_rate = 1e-3;
  config.train.steps = 2;
  resumed.train(config);
  config.schedule.learning_rate = 1e308;
  config.train.steps = 4;
  text = test::error_text<NumericError>([&] { resumed.train(config); });
  CHECK(text.starts_with("step 3: "));
  CHECK(contains(text, " this state is not saved, the newest checkpoint is from step 2\n"));
}

TEST_CASE("a run that diverges stops and prints its best and its last mean loss") {
  Config config = tiny_config();
  config.schedule = {.kind = ScheduleKind::linear_warmup,
                     .learning_rate = 3.0,
                     .warmup_steps = 300};  // the run learns before it diverges
  config.model.dropout = 0;
  config.train.steps = 400;
  config.train.save_every = 20;
  config.train.divergence_window = 10;
  TinyRun run;
  const std::string text = test::error_text<NumericError>([&] { run.train(config); });
  const std::string before_best = ": the run has diverged: the mean loss of 10 steps was ";
  const std::string between = " at its best and is now ";
  REQUIRE(contains(text, before_best));
  REQUIRE(contains(text, between));
  const double best = std::stod(text.substr(text.find(before_best) + before_best.size()));
  const double last = std::stod(text.substr(text.find(between) + between.size()));
  CHECK(last > 1.5 * best);
  const std::uint64_t saved = run.directory().steps().back();
  const std::uint64_t step = std::stoull(text.substr(5));
  CHECK(text.starts_with(fmt::format("step {}: the run has diverged: ", step)));
  CHECK(step % 10 == 0);
  CHECK(step > saved);
  CHECK(step - saved <= 20);
  CHECK(contains(text, fmt::format("the newest checkpoint is from step {}\nhint: ", saved)));
  CHECK(contains(text, "train.divergence_window=0"));
}

}  // namespace
}  // namespace tapestry

/// Tests the effects of train.detect_anomaly on a run.
namespace tapestry {
namespace {

using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

/// The error of a run in which the first element of the parameter `name` is `value`.
std::string error_with(const char* name, float value) {
  TinyRun run;
  Config config = tiny_config();
  config.train.detect_anomaly = true;
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  Tensor parameter = trainer.model().parameters.find(name)->tensor;
  parameter.mutable_values<float>()[0] = value;
  const std::string text = test::error_text<NumericError>([&] { trainer.run(); });
  CHECK(trainer.step() == 0);
  CHECK(run.directory().steps().empty());
  return text;
}

TEST_CASE("an anomaly is named with step, layer, operation and the ranges of its inputs") {
  const std::string text =
      error_with("encoder.layers.0.ff.linear1.bias", std::numeric_limits<float>::infinity());
  CHECK(
      text.starts_with("step 1: a value is not finite, expected a finite number\n  first in "
                       "encoder.layers.0.ff.linear"));
  CHECK(text.find("linear: forward: the output has ") != std::string::npos);
  CHECK(text.find("\n  input 3: ") != std::string::npos);
  CHECK(text.find("\n  the weights are from step 0\nhint: no parameter has been updated ") !=
        std::string::npos);
}

TEST_CASE("detect_anomaly does not change the bytes at the end of a run") {
  TinyRun plain, watched;
  Config config = tiny_config();
  plain.train(config);
  config.train.detect_anomaly = true;
  watched.train(config);
  CHECK(watched.checkpoint_bytes(tiny_steps) == plain.checkpoint_bytes(tiny_steps));
}

}  // namespace
}  // namespace tapestry
