#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_properties.h"
#include "tests/train/wiring/finished_runs.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/tasks/data_source.h"

/// Every key of the sections optimizer, schedule and train, in runs of every kind of model: what it
/// changes, and what it leaves as it is. The keys come from the list of keys; a key without a row
/// here must change the weights. That the numbers are right is tested with PyTorch
/// (golden_test.cpp) and with the parts of the trainer.
namespace tapestry {
namespace {

using namespace test;

/// What of two runs is compared, byte by byte.
enum class Part {
  weights,     ///< parameters in checkpoints of the same step
  training,    ///< rows of training in metrics.csv
  validation,  ///< rows of validation in metrics.csv
  files        ///< steps that have a checkpoint at the end
};

using enum Part;
using Parts = std::set<Part>;

/// Another value of a key, and what it changes.
struct Row {
  std::string key;
  std::string value{};  ///< empty: one that another_value() finds
  Parts changes{weights};
  Parts keeps{};
  std::vector<std::string> before{};  ///< overrides of both runs
};

const Parts all{weights, training, validation, files};
const Parts results{weights, training, validation};

/// A rate at which float64 weights stay as they are, so that no validation is better than the
/// first.
const std::string still = "schedule.learning_rate=1e-30";

/// Keys that change something else than the weights, or need certain values.
const std::vector<Row> rows = {
    {"optimizer.beta2", "0.9"},
    {"optimizer.clip_norm", "0.05"},
    {"optimizer.clip_norm", "0", {weights}, {}, {"optimizer.clip_norm=0.1"}},
    {"schedule.learning_rate", "0.02", {weights, training}},
    {"schedule.min_learning_rate", "0.004", {weights, training}},
    {"schedule.decay_steps", "40", {weights, training}},
    {"train.seed", "", results},
    {"train.steps", "5", {training, validation, files}, {weights}},
    {"train.batch_size", "3", results},
    {"train.batch_tokens", "60", results},
    {"train.accumulate", "1", results},
    {"train.accumulate", "3", results},
    {"train.label_smoothing", "0", results},
    {"train.label_smoothing", "0.4", {training}, {validation, files}, {still}},
    {"train.ema_decay", "0.9", {validation}, {weights, training}},
    {"train.threads", "3", {}, all},
    {"train.bucket_size", "0.5", {}, all},
    {"train.log_every", "2", {training}, {weights, validation, files}},
    {"train.validate_every", "2", {validation}, {weights, training}},
    {"train.save_every", "3", {files}, results},
    {"train.keep_last", "2", {files}, results},
    {"train.keep_best", "5", {files}, results, {"train.validate_every=1", "train.save_every=100"}},
    {"train.average_last", "5", {files}, results, {"train.save_every=1"}},
    {"train.patience", "2", {files, validation}, {}, {still, "train.validate_every=1"}},
    {"train.best_metric", "token_accuracy", {}, results},
    {"train.max_time", "1h", {}, all},
    {"train.on_nan", "skip", {}, all},
    {"train.max_nan_steps", "1", {}, all},
    {"train.divergence_window", "2", {}, all},
    {"train.report_every", "1", {}, all},
    {"train.digest_every", "2", {}, all},
    {"train.tensorboard", "true", {}, all},
    {"train.detect_anomaly", "true", {}, all},
    // Of a float32 gradient that is 0 but for rounding Adam makes a step, unless epsilon is large.
    {"train.dtype", "float32", results, {}, {"optimizer.epsilon=0.01"}},
    {"train.exact_match_sequences", "0", {validation}, {weights, training, files}},
    {"train.samples", "0", {}, all},
    {"train.bleu_tokenizer", "char", {}, {weights, training, files}},
    {"train.max_decode_length", "2", {}, {weights, training, files}},
};

/// Keys whose effect other tests see: those of places, of processes and of the length of a run.
/// keys_process_test.cpp, program/train_options_test.cpp, parallel/trainer_test.cpp and below.
const std::set<std::string> tested_elsewhere = {"train.run_dir", "train.initialize_from",
                                                "train.kernels", "train.matmul",
                                                "train.epochs",  "train.gradient_exchange"};

/// Overrides with which other keys of a section are used, and another value of its `kind`.
struct Context {
  std::string section;
  std::vector<std::string> overrides{};
  std::string other_kind{};
};

const std::string warm = "schedule.warmup_steps=2";
/// Where epsilon is small, Adam makes large steps of gradients that are 0 but for rounding.
const std::string coarse = "optimizer.epsilon=0.01", decay = "optimizer.weight_decay=0.1";

const std::vector<Context> contexts = {
    {"train"},
    {"optimizer", {"optimizer.kind=sgd", "schedule.learning_rate=0.1"}, "adam"},
    {"optimizer", {"optimizer.kind=adam", coarse, decay}, "adamw"},
    {"optimizer", {"optimizer.kind=adamw", coarse, decay}, "adam"},
    {"schedule", {"schedule.kind=constant"}, "cosine"},
    {"schedule", {"schedule.kind=linear_warmup", warm}, "inverse_sqrt"},
    {"schedule", {"schedule.kind=inverse_sqrt", warm}, "linear_warmup"},
    {"schedule", {"schedule.kind=cosine", warm}, "linear_warmup"},
};

std::vector<Row> rows_of(const std::string& key, const Context& context) {
  if (key == context.section + ".kind") return {{key, context.other_kind}};
  std::vector<Row> found;
  std::ranges::copy_if(rows, std::back_inserter(found),
                       [&](const Row& row) { return row.key == key; });
  if (found.empty()) found.push_back({key});
  return found;
}

std::string another_value(const Config& config, const std::string& key) {
  std::string other;
  for_each_field(config, [&](const Field& field, const FieldValue& value, const Domain& domain) {
    if (field.path() == key) other = test::another_value(value, domain);
  });
  return other;
}

/// Whether the parameters at all steps that both runs have a checkpoint of are the same.
bool same_weights(const Finished& a, const Finished& b) {
  std::size_t common = 0;
  bool same = true;
  for (const auto& [step, checkpoint] : a.checkpoints) {
    if (!b.checkpoints.contains(step)) continue;
    ++common;
    for (const auto& [path, array] : checkpoint) {
      if (!path.starts_with("parameters/")) continue;
      same = same && b.checkpoints.at(step).at(path) == array;
    }
  }
  CHECK_MESSAGE(common > 0, "no step has a checkpoint in both runs");
  return same;
}

std::vector<std::uint64_t> steps_of(const Finished& run) {
  std::vector<std::uint64_t> steps;
  for (const auto& saved : run.checkpoints) steps.push_back(saved.first);
  return steps;
}

bool same(const Finished& a, const Finished& b, Part what) {
  switch (what) {
    case Part::weights:
      return same_weights(a, b);
    case Part::training:
      return rows_in(a, "train") == rows_in(b, "train");
    case Part::validation:
      return rows_in(a, "validation") == rows_in(b, "validation");
    case Part::files:
      break;
  }
  return steps_of(a) == steps_of(b);
}

/// The checkpoint has the config of the run and the defaults of what belongs to the process.
void check_stored_config(const Finished& run, Config config) {
  const Config stored =
      parse_config(run.checkpoints.rbegin()->second.get_text("config"), "checkpoint");
  if (config.schedule.kind == ScheduleKind::cosine && config.schedule.decay_steps == 0) {
    config.schedule.decay_steps = config.train.steps;
  }
  for (const ConfigDifference& difference : compare_configs(stored, config)) {
    CHECK_MESSAGE(is_process_setting(difference.key), difference.key);
  }
  for (const ConfigDifference& difference : compare_configs(stored, Config())) {
    CHECK_MESSAGE(!is_process_setting(difference.key), difference.key);
  }
}

/// Trains without and with a value; each run without is made once.
class Comparison {
 public:
  Comparison(const TaskWorkplace& work, const TaskCase& task) : work_(work), task_(task) {}

  void check(const Row& row, const Context& context) {
    CAPTURE(row.key);
    std::vector<std::string> overrides = context.overrides;
    overrides.insert(overrides.end(), row.before.begin(), row.before.end());
    if (context.section == "schedule") overrides.emplace_back("train.log_every=1");
    const auto [found, is_new] = without_.try_emplace(overrides);
    if (is_new) found->second = train_here(work_, task_, overrides);
    const std::string value =
        row.value.empty() ? another_value(work_.config(task_, overrides), row.key) : row.value;
    CAPTURE(value);
    overrides.push_back(row.key + "=" + value);
    const Finished with = train_here(work_, task_, overrides);
    CHECK_MESSAGE(with.outcome.code == 0, with.outcome.err);
    REQUIRE_FALSE(with.checkpoints.empty());
    check_stored_config(with, work_.config(task_, overrides));
    for (const Part part : all) {
      CAPTURE(static_cast<int>(part));
      if (row.changes.contains(part)) CHECK_FALSE(same(with, found->second, part));
      if (row.keeps.contains(part)) CHECK(same(with, found->second, part));
    }
  }

 private:
  const TaskWorkplace& work_;
  const TaskCase& task_;
  std::map<std::vector<std::string>, Finished> without_{};
};

}  // namespace

TEST_CASE("every key of a run has its documented effect on every kind of model, and no other") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.name());
    Comparison comparison(work, task);
    for (const Context& context : contexts) {
      for (const std::string& name :
           keys_in_use(work.config(task, context.overrides), context.section)) {
        const std::string key = context.section + "." + name;
        const bool lacks_lengths = find_task(task.kind).traits().reads_images;
        if (tested_elsewhere.contains(key)) continue;
        if (key == "train.batch_tokens" && lacks_lengths) continue;
        for (const Row& row : rows_of(key, context)) comparison.check(row, context);
      }
    }
  }
}

TEST_CASE("the rows name keys, and the contexts every optimizer and schedule") {
  std::set<std::string> keys;
  for (const ConfigKey& key : config_keys()) keys.insert(key.path());
  for (const Row& row : rows) CHECK_MESSAGE(keys.contains(row.key), row.key);
  for (const std::string& key : tested_elsewhere) CHECK_MESSAGE(keys.contains(key), key);
  const auto in = [](const char* section) {
    return static_cast<std::size_t>(std::ranges::count(contexts, section, &Context::section));
  };
  CHECK(in("optimizer") == choices_of<OptimizerKind>.size());
  CHECK(in("schedule") == choices_of<ScheduleKind>.size());
}

TEST_CASE("train.threads and train.patience show on the screen") {
  const TaskWorkplace work;
  const TaskCase& task = task_cases.front();
  CHECK(contains(train(work, task, {"train.threads=3"}).outcome.out, "; threads: 3; "));
  CHECK(
      contains(train(work, task, {still, "train.validate_every=1", "train.patience=2"}).outcome.out,
               "done: 3 steps, no new best in 2 validations; next: "));
}

TEST_CASE("train.dtype is the precision of every stored number") {
  const TaskWorkplace work;
  for (const auto& [dtype, type] :
       {std::pair("float32", ElementType::float32), std::pair("float64", ElementType::float64)}) {
    const Finished run = train_here(work, task_cases.front(),
                                    {"train.steps=1", std::string("train.dtype=") + dtype});
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

TEST_CASE("a run of every task prints its data and stores what identifies them") {
  const TaskWorkplace work;
  for (const TaskCase& task : task_cases) {
    CAPTURE(task.name());
    const Corpus corpus = load_corpus(work.config(task).data);
    const Finished run = train(work, task, {});
    CHECK(run.outcome.code == 0);
    CHECK(run.outcome.err == "");
    const ArrayStore& last = run.checkpoints.rbegin()->second;
    CHECK(last.get_scalar<std::uint64_t>("data/fingerprint") == corpus.fingerprint);
    CHECK(last.get_text("data/source_vocabulary") == corpus.source_vocabulary.to_text());
    CHECK(last.get_text("data/target_vocabulary") == corpus.target_vocabulary.to_text());
    CHECK(contains(run.outcome.out, fmt::format("data: {} training ", corpus.train.size())));
    CHECK(run.outcome.out.find(fmt::format(", {} validation, {} test; ", corpus.validation.size(),
                                           corpus.test.size())) < run.outcome.out.find('\n'));
    // The same Trainer without the program around it has the same results.
    const Finished here = train_here(work, task, {});
    CHECK(here.metrics == run.metrics);
    CHECK(same_weights(here, run));
  }
}

TEST_CASE("a run of every kind resumed between two log lines has the bytes of a run at once") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.name());
    const Finished expected = train_here(work, task, {});
    const std::string run_dir = "runs/" + task.name();
    // The line of step 6 sums up steps 4 to 6, of which two come after the resume.
    REQUIRE(train(work, task, {"train.steps=4"}).outcome.code == 0);
    const Finished run =
        finished(work, run_dir,
                 work.run({"train", "--resume", run_dir, "train.steps=7", "train.threads=1"}));
    CHECK(run.outcome.code == 0);
    CHECK(run.metrics == expected.metrics);
    CHECK(weights_in(run.checkpoints.at(7)) == weights_in(expected.checkpoints.at(7)));
    CHECK(run.checkpoints.at(7).get_scalar<std::uint64_t>("train/best_step") ==
          expected.checkpoints.at(7).get_scalar<std::uint64_t>("train/best_step"));
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
    const Finished run =
        train(work, task, {"train.initialize_from=" + file, still, "train.steps=1"});
    CHECK(distance(weights_in(run.checkpoints.at(1)), weights_in(first.checkpoints.at(7))) < 1e-20);
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
    for (const char* split : {"train", "validation"}) {
      const auto a = rows_in(two, split), b = rows_in(one, split);
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        CHECK(std::stod(a[i].at("loss")) ==
              doctest::Approx(std::stod(b[i].at("loss"))).epsilon(1e-9));
        CHECK(a[i].at("target_tokens") == b[i].at("target_tokens"));
      }
    }
  }
}

namespace {

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

}  // namespace

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

namespace {

/// The step at which losses have diverged, by the rule of train/checkpoint/divergence_watch.h; 0 if
/// they have not. `targets` are the words or classes among which a guess chooses.
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

}  // namespace

TEST_CASE("a run of every kind detects divergence in windows of the given length") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.name());
    std::set<std::uint64_t> ends;
    for (const char* rate : {"0.1", "1", "10"}) {
      CAPTURE(rate);
      const std::vector<std::string> overrides = {std::string("schedule.learning_rate=") + rate,
                                                  "train.steps=9",
                                                  "train.log_every=1",
                                                  "train.validate_every=1000",
                                                  "train.save_every=1000",
                                                  "train.divergence_window=0"};
      const Corpus corpus = load_corpus(work.config(task, overrides).data);
      std::vector<double> losses;
      for (const auto& row : rows_in(train_here(work, task, overrides), "train")) {
        losses.push_back(std::stod(row.at("loss")));
      }
      const bool classes = predicts_classes(task.kind);
      const auto targets =
          static_cast<double>(corpus.target_vocabulary.size() - (classes ? first_word_id : 0));
      for (const std::size_t window : {0, 1, 2, 3}) {
        const std::uint64_t end = window == 0 ? 0 : diverges_at(losses, targets, window);
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

}  // namespace tapestry
