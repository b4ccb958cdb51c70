// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/allocations.h"
#include "tests/train/parallel/local_network.h"
#include "tests/train/program.h"
#include "tests/train/run_files.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/loop/step.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

Config config_of_five_batches() {
  Config config = test::tiny_config();
  config.train.accumulate = 5;
  config.train.batch_size = 2;
  return config;
}

/// Trains in several processes, from the start or from the newest checkpoint; `limit(rank)` is the
/// time limit of each process.
std::vector<RunEnd> train_in_processes(
    test::TinyRun& run, const Config& config, std::size_t processes,
    const std::function<TimeLimit(std::size_t)>& limit = [](std::size_t) { return TimeLimit(); }) {
  const Corpus corpus = load_corpus(config.data);
  std::vector<RunEnd> ends(processes);
  test::run_processes(processes, [&](ProcessGroup& group) {
    RunDirectory directory(run.directory().path());
    Progress progress(nullptr, 0, config.train.steps);
    Trainer trainer(config, corpus, directory, progress, group);
    if (const auto newest = directory.read_newest()) trainer.resume(newest->arrays);
    ends[group.rank()] = trainer.run({.signals = nullptr, .time = limit(group.rank())});
  });
  return ends;
}

/// Checks that runs with these numbers of processes are bit-identical to `one`, which is trained if
/// it is new.
void check_processes(const Config& config, const std::vector<std::size_t>& numbers,
                     test::TinyRun& one) {
  if (one.directory().steps().empty()) one.train(config);
  for (const std::size_t processes : numbers) {
    CAPTURE(processes);
    test::TinyRun many;
    train_in_processes(many, config, processes);
    CHECK(many.checkpoint_bytes(test::tiny_steps) == one.checkpoint_bytes(test::tiny_steps));
    CHECK(many.metrics() == one.metrics());
  }
}

TEST_CASE("training gives the same bytes with any number of processes") {
  Config config = config_of_five_batches();
  test::TinyRun one;
  SUBCASE("with dropout") { check_processes(config, {2, 3, 5}, one); }
  SUBCASE("with batch norm") {
    config.model.normalization = Normalization::batch_norm;
    check_processes(config, {3}, one);
  }
  SUBCASE("with buckets of any size") {
    config.model.d_ff = 2500;  // matrices of several pieces, so that there are several buckets
    for (const double bucket_size : {0.01, 0.2, 1000.0}) {
      CAPTURE(bucket_size);
      config.train.bucket_size = bucket_size;
      check_processes(config, {2}, one);  // every bucket size gives the same bytes
    }
  }
  SUBCASE("with gradients in bfloat16, which give different bits") {
    test::TinyRun full;
    full.train(config);
    config.train.gradient_exchange = GradientFormat::bfloat16;
    check_processes(config, {2, 3, 5}, one);
    CHECK(one.metrics() != full.metrics());
  }
}

struct Part {
  std::size_t processes;
  std::size_t steps;  ///< the last step of the part
};

/// Checks that a run whose parts have different numbers of processes is bit-identical to a run in
/// one process.
void check_parts(const Config& config, const std::vector<Part>& parts) {
  test::TinyRun one, many;
  one.train(config);
  for (const Part& part : parts) {
    Config until = config;
    until.train.steps = part.steps;
    train_in_processes(many, until, part.processes);
  }
  CHECK(many.checkpoint_bytes(test::tiny_steps) == one.checkpoint_bytes(test::tiny_steps));
}

TEST_CASE("a run, with or without averages, can be resumed with a different number of processes") {
  Config config = config_of_five_batches();
  check_parts(config, {{.processes = 4, .steps = 4},
                       {.processes = 3, .steps = 7},
                       {.processes = 2, .steps = test::tiny_steps}});
  config.train.ema_decay = 0.7;
  config.model.d_ff = 2500;
  check_parts(config, {{.processes = 5, .steps = 3},
                       {.processes = 3, .steps = 6},
                       {.processes = 1, .steps = test::tiny_steps}});
}

TEST_CASE("rank 0 records the gradients and averages of all shards") {
  Config config = config_of_five_batches();
  config.train.ema_decay = 0.7;
  const Corpus corpus = load_corpus(config.data);
  const auto record = [&](std::size_t processes) {
    test::TinyRun run;
    test::run_processes(processes, [&](ProcessGroup& group) {
      RunDirectory directory(run.directory().path());
      Progress progress(nullptr, 0, config.train.steps);
      Trainer trainer(config, corpus, directory, progress, group);
      if (group.is_rank_0()) trainer.record_to(directory.path());
      trainer.run();
    });
    const std::string recorded = test::event_lines(run.directory().path(), "validation") +
                                 test::event_lines(run.directory().path(), "digests");
    return std::regex_replace(recorded, std::regex("\"resident_bytes\":[^,]*,"), "");
  };
  const std::string expected = record(1);
  CHECK(expected.find("gradient") != expected.npos);
  CHECK(record(3) == expected);
}

TEST_CASE("the time limit of one process ends all processes at the same step with a save") {
  const auto limit_of_second = [](std::size_t rank) {
    if (rank != 1) return TimeLimit();
    return TimeLimit(TimeLimit::Clock::now() - std::chrono::hours(1), std::chrono::seconds(1));
  };
  test::TinyRun run;
  const auto ends = train_in_processes(run, config_of_five_batches(), 3, limit_of_second);
  for (const RunEnd end : ends) CHECK(end == RunEnd::time);
  CHECK(run.directory().steps() == std::vector<std::uint64_t>{0});
}

TEST_CASE("if rank 0 lacks memory for a snapshot, the save fails on all processes") {
  Config config = config_of_five_batches();
  config.model.d_ff = 512;
  config.train.save_every = 1;
  config.train.steps = 3;
  config.data.generated.validation_size = 0;
  const Corpus corpus = load_corpus(config.data);
  for (const std::size_t processes : {1, 3}) {
    CAPTURE(processes);
    test::TinyRun sound, run;
    sound.train(config);
    const auto log = run.directory().path() / "log";
    test::run_processes(processes, [&](ProcessGroup& group) {
      RunDirectory directory(run.directory().path());
      Progress progress(nullptr, 0, config.train.steps);
      Trainer trainer(config, corpus, directory, progress, group);
      if (group.is_rank_0()) {
        progress.log_to(log.string());
        // Called after the first step. The next array of this size belongs to the snapshot.
        progress.message_later(std::chrono::seconds(0), []() -> std::optional<std::string> {
          test::fail_next_new_above(16 * 1024);
          return std::nullopt;
        });
      }
      CHECK(trainer.run() == RunEnd::finished);
    });
    const std::string text = test::read_text(log);
    const auto warning = text.find("warning: not saved: no memory for a checkpoint; training ");
    CHECK(warning != text.npos);
    CHECK(text.find("warning: ", warning + 1) == text.npos);
    CHECK(run.directory().steps() == std::vector<std::uint64_t>{2, 3});
    CHECK(run.checkpoint_bytes(3) == sound.checkpoint_bytes(3));
  }
}

/// Two batches of one sentence per step, so that only some batches contain a given symbol.
Config two_sentences_a_step() {
  Config config = test::tiny_config();
  config.train.batch_size = 1;
  config.train.accumulate = 2;
  return config;
}

/// Trains poisoned models in several processes. Returns the message of each NumericError.
std::vector<std::string> train_poisoned(test::TinyRun& run, const Config& config,
                                        std::size_t processes) {
  const Corpus corpus = load_corpus(config.data);
  std::vector<std::string> errors(processes);
  test::run_processes(processes, [&](ProcessGroup& group) {
    RunDirectory directory(run.directory().path());
    Progress progress(nullptr, 0, config.train.steps);
    Trainer trainer(config, corpus, directory, progress, group);
    test::poison(trainer.model());
    try {
      trainer.run();
    } catch (const NumericError& error) {
      errors[group.rank()] = error.what();
    }
  });
  return errors;
}

TEST_CASE("a non-finite loss in one process ends all processes with the same error") {
  test::TinyRun run;
  const auto errors = train_poisoned(run, two_sentences_a_step(), 2);
  CHECK(errors[0].find("expected a finite number\n  first in") != std::string::npos);
  CHECK(errors[1] == errors[0]);
}

TEST_CASE("processes that roll back end with the same checkpoint as a single process") {
  Config config = two_sentences_a_step();
  config.train.on_nan = OnNan::rollback;
  config.train.max_nan_steps = 100;
  test::TinyRun one, two;
  CHECK(train_poisoned(one, config, 1) == std::vector<std::string>(1));
  CHECK(train_poisoned(two, config, 2) == std::vector<std::string>(2));
  CHECK(two.checkpoint_bytes(test::tiny_steps) == one.checkpoint_bytes(test::tiny_steps));
  const std::string history = two.snapshot(test::tiny_steps).get_text("train/history");
  CHECK(history.find("rolled back") != std::string::npos);
}

/// A run after one step with the first `batches` batches.
struct TrainedStep {
  explicit TrainedStep(std::size_t batches)
      : corpus(load_corpus(config.data)), computer(config, corpus) {
    const BatchRules rules = batch_rules(config, corpus.target_vocabulary.size());
    std::vector<Batch> step;
    for (std::size_t i = 0; i < batches; ++i) {
      step.push_back(make_batch(corpus.training(), std::array<std::size_t, 1>{i}, rules));
    }
    RunStep trained = computer.next_step(std::move(step));
    computer.compute(trained);
    computer.apply(trained);
  }

  Config config = test::tiny_config();
  Corpus corpus;
  StepComputer computer;
};

TEST_CASE("processes with different parameters or optimizer state have different digests") {
  TrainedStep one(1), same(1), other(2);
  CHECK(one.computer.state_text().starts_with("run "));
  CHECK(same.computer.state_text() == one.computer.state_text());
  CHECK(other.computer.state_text() != one.computer.state_text());
  const auto from = one.computer.model().parameters.list();
  const auto to = other.computer.model().parameters.list();
  for (std::size_t i = 0; i < to.size(); ++i) {
    Tensor tensor = to[i].tensor;
    std::ranges::copy(from[i].tensor.values<float>(), tensor.mutable_values<float>().begin());
  }
  // The checkpoints differ only in the moments of Adam.
  const ArrayStore of_one = one.computer.snapshot(), of_other = other.computer.snapshot();
  same.computer.restore(of_one);
  one.computer.restore(of_one);
  CHECK(same.computer.state_text() == one.computer.state_text());
  other.computer.restore(of_other);
  CHECK(other.computer.state_text() != one.computer.state_text());
  test::poison(same.computer.model());
  CHECK(same.computer.state_text() != one.computer.state_text());
}

/// The error message of each process if the processes compare these texts; empty without an error.
std::vector<std::string> errors_of(const std::vector<std::string>& texts) {
  std::vector<std::string> errors(texts.size());
  test::run_processes(texts.size(), [&](ProcessGroup& group) {
    try {
      group.require_equal(
          "program", [] { return "1.0"; }, ExitCode::usage);
      group.require_equal(
          "config", [&] { return texts[group.rank()]; }, ExitCode::data);
    } catch (const PeerFailure& error) {
      errors[group.rank()] = error.what();
      if (error.exit_code() != ExitCode::data) errors[group.rank()] += " with another code";
    }
  });
  return errors;
}

TEST_CASE("errors name the process that differs from rank 0 and the differing line") {
  for (const std::string& error : errors_of({"a: 1\n  b: 2\n", "a: 1\n  b: 2\n"})) {
    CHECK(error.empty());
  }
  for (const std::string& error :
       errors_of({"a: 1\n  b: 2\nc: 3\n", "a: 1\n  b: 2\nc: 3\n", "a: 1\n  b: 21\nc: 3\n", "d"})) {
    CHECK(error.starts_with("rank 2 on "));
    CHECK(error.find(": config: found `b: 21`, expected `b: 2` as on rank 0, ") != error.npos);
  }
}

}  // namespace
}  // namespace tapestry
