#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_properties.h"
#include "tests/train/wiring/keys_rows.h"
#include "tests/train/wiring/keys_tasks.h"
#include "tests/train/wiring/train_replay.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/tasks/data_source.h"

/// Every key of the section `train`, in runs of every kind of model.
namespace tapestry {
namespace {

using namespace test;

const std::set<Seen> all = {weights, training, validation, files};

/// A rate at which float64 weights stay as they are, so that no validation is better than the
/// first.
const std::string still = "schedule.learning_rate=1e-30";

const std::vector<KeyRow> rows_of_runs = {
    {"train.seed", "2", {weights, training, validation}, {}},
    {"train.steps", "5", {training, validation, files}, {weights}},
    {"train.batch_size", "3", {weights, training, validation}, {}},
    {"train.batch_tokens", "60", {weights, training, validation}, {}},
    {"train.accumulate", "1", {weights, training, validation}, {}},
    {"train.accumulate", "3", {weights, training, validation}, {}},
    {"train.label_smoothing", "0", {weights, training, validation}, {}},
    {"train.label_smoothing", "0.4", {training}, {validation, files}, {still}},
    {"train.ema_decay", "0.9", {validation}, {weights, training}},
    {"train.threads", "3", {}, all, {}, "; threads: 3; "},
    {"train.bucket_size", "0.5", {}, all},
    {"train.log_every", "2", {training}, {weights, validation, files}},
    {"train.validate_every", "2", {validation}, {weights, training}},
    {"train.save_every", "3", {files}, {weights, training, validation}},
    {"train.keep_last", "2", {files}, {weights, training, validation}},
    {"train.keep_best",
     "5",
     {files},
     {weights, training, validation},
     {"train.validate_every=1", "train.save_every=100"}},
    {"train.average_last", "5", {files}, {weights, training, validation}, {"train.save_every=1"}},
    {"train.patience",
     "2",
     {files, validation},
     {},
     {still, "train.validate_every=1"},
     "done: 3 steps, no new best in 2 validations; next: "},
    {"train.best_metric", "token_accuracy", {}, {weights, training, validation}},
    {"train.max_time", "1h", {}, all},
    {"train.on_nan", "skip", {}, all},
    {"train.max_nan_steps", "1", {}, all},
    {"train.divergence_window", "2", {}, all},
    {"train.report_every", "1", {}, all},
    {"train.digest_every", "2", {}, all},
    {"train.tensorboard", "true", {}, all},
    {"train.detect_anomaly", "true", {}, all},
    // Of a float32 gradient that is 0 but for rounding Adam makes a step, unless epsilon is large.
    {"train.dtype", "float32", {weights, training, validation}, {}, {"optimizer.epsilon=0.01"}},
};

/// Keys that decoding alone uses.
const std::vector<KeyRow> rows_of_decoding = {
    {"train.exact_match_sequences", "0", {validation}, {weights, training, files}},
    {"train.samples", "0", {}, all},
    {"train.bleu_tokenizer", "char", {}, {weights, training, files}},
    {"train.max_decode_length", "2", {}, {weights, training, files}},
};

/// Keys with a test of their own, below, in keys_process_test.cpp, in
/// program/train_options_test.cpp or in parallel/trainer_test.cpp.
const std::vector<std::string> keys_of_places = {"train.run_dir", "train.initialize_from",
                                                 "train.kernels", "train.matmul",
                                                 "train.epochs",  "train.gradient_exchange"};

TEST_CASE("every train key has its documented effect on every kind of model, and no other") {
  const TaskWorkplace work;
  Baselines baselines(work);
  for (const TaskCase& task : one_case_of_each_kind) {
    const bool decodes_text = lists_key(task.kind, "train.exact_match_sequences");
    for (const KeyRow& row : rows_of_runs) {
      const bool has_lengths = !find_task(task.kind).traits().reads_images;
      if (row.key == "train.batch_tokens" && !has_lengths) continue;
      const How how = decodes_text && !row.says.empty() ? How::program : How::trainer;
      check_row(how, work, task, row, baselines);
    }
    if (!decodes_text) continue;
    for (const KeyRow& row : rows_of_decoding) {
      check_row(How::trainer, work, task, row, baselines);
    }
  }
}

TEST_CASE("every train key that a kind of model uses has a row") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.kind);
    for (const std::string& name : keys_in_use(work.config(task), "train")) {
      const std::string key = "train." + name;
      CAPTURE(key);
      const bool decodes_text = lists_key(task.kind, "train.exact_match_sequences");
      const auto rows =
          std::ranges::count(rows_of_runs, key, &KeyRow::key) +
          (decodes_text ? std::ranges::count(rows_of_decoding, key, &KeyRow::key) : 0) +
          std::ranges::count(keys_of_places, key);
      CHECK_MESSAGE(rows > 0, "no row in the tables at the top of train_keys_test.cpp");
    }
  }
}

TEST_CASE("train.dtype is the precision of every stored number") {
  const TaskWorkplace work;
  for (const auto& [dtype, type] :
       {std::pair("float32", ElementType::float32), std::pair("float64", ElementType::float64)}) {
    const Finished run =
        train(work, task_cases.front(), {"train.steps=1", std::string("train.dtype=") + dtype});
    std::size_t tensors = 0;
    for (const auto& [path, array] : run.checkpoints.at(1)) {
      const bool is_tensor = path.starts_with("parameters/") ||
                             path.starts_with("optimizer/first_moment/") ||
                             path.starts_with("optimizer/second_moment/");
      if (!is_tensor) continue;
      ++tensors;
      CHECK(array.type == type);
    }
    CHECK(tensors > 0);
  }
}

TEST_CASE("a run in another directory has the bytes of one in the default directory") {
  const TaskWorkplace work;
  for (const TaskCase& task : {task_cases.front(), task_cases.back()}) {
    CAPTURE(task.name());
    const Finished expected = train(work, task, {});
    std::filesystem::remove_all(work / "runs");
    const Finished other =
        finished(work, "elsewhere/run",
                 work.run({"train", task.name() + ".yaml", "train.run_dir=elsewhere/run"}));
    CHECK_FALSE(std::filesystem::exists(work / "runs"));
    CHECK(contains(other.outcome.out, "; run directory elsewhere/run\n"));
    CHECK(other.metrics == expected.metrics);
    CHECK(other.checkpoints == expected.checkpoints);
    std::filesystem::remove_all(work / "elsewhere");
  }
}

TEST_CASE("a run of every kind begins with the weights of train.initialize_from") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.name());
    const Finished first = train_here(work, task, {"train.seed=5"});
    const std::string file = "here/" + task.name() + "/checkpoints/step-00000007.h5";
    const std::vector<std::string> overrides = {"train.initialize_from=" + file};
    const Finished run = train(work, task, overrides);
    const Config config = work.config(task, overrides);
    const Values from = weights_in(first.checkpoints.at(7));
    check_as_replayed(run, config, replay(config, load_corpus(config.data), &from));
  }
}

TEST_CASE("two accumulated batches train like one batch of both, without dropout") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.name());
    const std::size_t examples = load_corpus(work.config(task).data).train.size();
    // An epoch is a step in either case.
    const auto run = [&](std::size_t batch_size, std::size_t accumulate) {
      return train_here(
          work, task,
          {"model.dropout=0", "train.steps=4", fmt::format("train.batch_size={}", batch_size),
           fmt::format("train.accumulate={}", accumulate)});
    };
    const Finished two = run((examples + 1) / 2, 2), one = run(examples, 1);
    CHECK(distance(weights_in(two.checkpoints.at(4)), weights_in(one.checkpoints.at(4))) < 1e-9);
    check_metrics(two.metrics, parse_metrics(one.metrics), 1e-9);
  }
}

/// A checkpoint that a run can begin with, and none of whose steps is finite: of every kind of
/// model the first feed-forward block overflows.
std::string poisoned_checkpoint(const TaskWorkplace& work, const TaskCase& task) {
  const Finished sound = train_here(work, task, {"train.steps=1"});
  ArrayStore poisoned;
  bool done = false;
  for (const auto& [path, array] : sound.checkpoints.at(1)) {
    const bool chosen = !done && path.starts_with("parameters/") && contains(path, "layers.0.") &&
                        array.shape.size() == 2 && contains(path, "ff");
    if (!chosen) {
      poisoned.put(path, array);
      continue;
    }
    done = true;
    std::vector<double> huge(array.bytes.size() / sizeof(double));
    for (std::size_t i = 0; i < huge.size(); ++i) huge[i] = i % 2 == 0 ? 1e308 : -1e308;
    poisoned.put<double>(path, huge, array.shape);
  }
  REQUIRE(done);
  write_checkpoint(work / "poisoned.h5", poisoned);
  return "train.initialize_from=poisoned.h5";
}

TEST_CASE("train.on_nan and train.max_nan_steps decide what a non-finite step does") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.name());
    const std::string from = poisoned_checkpoint(work, task);
    const auto run = [&](std::vector<std::string> overrides) {
      overrides.push_back(from);
      const Finished done = train(work, task, overrides);
      CHECK(done.outcome.code == 6);
      return done.outcome;
    };
    const auto warnings = [](const Outcome& outcome) {
      std::size_t count = 0;
      for (std::size_t at = 0; (at = outcome.out.find("\nwarning: step ", at)) != std::string::npos;
           ++at) {
        ++count;
      }
      return count;
    };
    const Outcome stopped = run({});
    CHECK(contains(stopped.err, "error: step 1: the "));
    CHECK(contains(stopped.err, "; train.on_nan=skip skips such a step"));
    CHECK(warnings(stopped) == 0);

    const Outcome skipped = run({"train.on_nan=skip", "train.max_nan_steps=2"});
    CHECK(contains(skipped.err, "error: step 3: "));
    CHECK(contains(skipped.err, "; 3 consecutive steps, train.max_nan_steps is 2\n"));
    CHECK(warnings(skipped) == 2);

    const Outcome back = run({"train.on_nan=rollback", "train.max_nan_steps=1"});
    CHECK(contains(back.err, "error: step 1: "));
    CHECK(contains(back.err, "; 2 consecutive steps, train.max_nan_steps is 1\n"));
    CHECK(contains(back.out, "\nrolled back to step 0\n"));

    CHECK(contains(run({"train.detect_anomaly=true"}).err,
                   "error: step 1: a value is not finite, expected a finite number; first in "));
  }
}

/// The step at which losses have diverged, by the rule of train/divergence_watch.h; 0 if they have
/// not. `targets` are the words or classes among which a guess chooses.
std::uint64_t diverges_at(const std::vector<double>& losses, double targets, std::size_t window) {
  double first = 0.0, best = 0.0, deviation = 0.0;
  std::size_t bad = 0;
  for (std::size_t end = window; end <= losses.size(); end += window) {
    double mean = 0.0, squares = 0.0;
    for (std::size_t i = end - window; i < end; ++i)
      mean += losses[i] / static_cast<double>(window);
    for (std::size_t i = end - window; i < end; ++i) squares += std::pow(losses[i] - mean, 2);
    const bool is_first = end == window;
    if (is_first) first = mean;
    const bool lost = !is_first && mean > best + std::max(0.5 * (first - best), 6.0 * deviation);
    bad = mean > 2.0 * std::log(targets) || lost ? bad + 1 : 0;
    if (is_first || mean < best) {
      best = mean;
      deviation = std::sqrt(squares / static_cast<double>(window));
    }
    if (bad == 3) return end;
  }
  return 0;
}

TEST_CASE("a run of every kind detects divergence in windows of the given length") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.name());
    std::set<std::uint64_t> ends;
    for (const char* rate : {"0.1", "1", "10"}) {
      CAPTURE(rate);
      const std::vector<std::string> overrides = {
          std::string("schedule.learning_rate=") + rate, "train.steps=9",
          "train.validate_every=1000", "train.save_every=1000", "train.divergence_window=0"};
      const Config config = work.config(task, overrides);
      const Corpus corpus = load_corpus(config.data);
      const Replay endless = replay(config, corpus);
      const bool classes = predicts_classes(task.kind);
      const auto targets =
          static_cast<double>(corpus.target_vocabulary.size() - (classes ? first_word_id : 0));
      for (const std::size_t window : {0, 1, 2, 3}) {
        const std::uint64_t end = window == 0 ? 0 : diverges_at(endless.losses, targets, window);
        ends.insert(end);
        CAPTURE(window);
        std::vector<std::string> watched = overrides;
        watched.back() = fmt::format("train.divergence_window={}", window);
        const Outcome outcome = train_here(work, task, watched).outcome;
        CHECK(outcome.code == (end == 0 ? 0 : 6));
        const std::string message =
            end == 0 ? ""
                     : fmt::format("step {}: the run has diverged: the mean loss of {} steps was ",
                                   end, window);
        CHECK_MESSAGE(contains(outcome.err, message), outcome.err);
      }
    }
    CHECK(ends.size() > 2);
  }
}

}  // namespace
}  // namespace tapestry
