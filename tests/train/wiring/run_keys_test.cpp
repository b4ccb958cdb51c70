// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kinds.h"
#include "tests/train/wiring/finished_runs.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/config/difference.h"
#include "train/config/keys.h"
#include "train/config/load.h"
#include "train/tasks/data_source.h"

/// Tests every key of the sections optimizer, schedule and train in runs of every kind of model:
/// the key changes only the expected parts of a run. Keys and expectations come from the list of
/// keys. Keys of process settings change nothing. Other keys that may change freely on resume do
/// not change weights; all remaining keys do. golden_test.cpp and the tests of the trainer check
/// numeric values.
namespace tapestry {
namespace {

using namespace test;

/// Parts of two runs that are compared byte by byte.
enum class Part {
  weights,     ///< parameters in checkpoints of the same step
  training,    ///< training rows of metrics.csv
  validation,  ///< validation rows of metrics.csv
  files        ///< which steps have a checkpoint at the end
};

using enum Part;
using Parts = std::set<Part>;
const Parts all{weights, training, validation, files};

/// A value of a key, and its expected effect.
struct Row {
  std::string key;
  std::string value{};                ///< empty: a value that another_value() finds
  std::optional<Parts> changes{};     ///< the only parts that change; nullopt: changes_by_rule()
  std::vector<std::string> before{};  ///< overrides of both runs
};

/// A learning rate too small to change a float64 weight, so that no validation improves on the
/// first.
const std::string still = "schedule.learning_rate=1e-30";

const std::vector<Row> rows = {
    // Other values would have no effect within the few steps of a run.
    {"optimizer.beta2", "0.9"},
    {"optimizer.clip_norm", "0.05"},
    {"schedule.learning_rate", "0.02"},
    {"schedule.min_learning_rate", "0.004"},
    {"schedule.decay_steps", "40"},
    {"train.batch_tokens", "60"},
    // In float32, Adam takes steps from the rounding errors of zero gradients unless epsilon is
    // large.
    {.key = "train.dtype", .before = {"optimizer.epsilon=0.01"}},
    // Keys that affect parts of the run other than weights.
    {"train.label_smoothing", "0.4", Parts{training}, {still}},
    {"train.label_smoothing"},
    {"train.ema_decay", "", Parts{validation}},
    {"train.best_metric", "token_accuracy", Parts{}},
    {"train.bleu_tokenizer", "char", Parts{}},
    {"train.steps", "5", Parts{training, validation, files}},
    {"train.log_every", "2", Parts{training}},
    {"train.validate_every", "2", Parts{validation}},
    {"train.save_every", "", Parts{files}},
    {"train.keep_last", "2", Parts{files}},
    {"train.keep_best", "5", Parts{files}, {"train.validate_every=1", "train.save_every=100"}},
    {"train.average_last", "5", Parts{files}, {"train.save_every=1"}},
    {"train.patience", "2", Parts{training, validation, files}, {still, "train.validate_every=1"}},
    {"train.exact_match_sequences", "0", Parts{validation}},
    {"train.max_time", "1h"},
};

/// For some keys, a part of the run that the key may or may not change. It is not compared: scores
/// of different outputs, the best checkpoints, or weights of 0, which even a tiny learning rate
/// changes.
const std::map<std::string, Part> uncertain = {
    {"train.ema_decay", files},           {"train.label_smoothing", weights},
    {"train.validate_every", files},      {"train.best_metric", files},
    {"train.bleu_tokenizer", validation}, {"train.max_decode_length", validation}};

/// Keys that other tests cover: keys_process_test.cpp, program/train_test.cpp,
/// program/initialize_test.cpp, parallel/trainer_test.cpp and below.
const std::set<std::string> run_keys_tested_elsewhere = {
    "train.run_dir", "train.initialize_from", "train.kernels",
    "train.matmul",  "train.epochs",          "train.gradient_exchange"};

/// Overrides that make other keys of a section take effect, and a different value of its `kind`.
struct Context {
  std::string section;
  std::vector<std::string> overrides{};
  std::string other_kind{};
};

const std::string warm = "schedule.warmup_steps=2";
/// With a small epsilon, Adam takes large steps from rounding errors of zero gradients.
const std::string coarse = "optimizer.epsilon=0.01", decay = "optimizer.weight_decay=0.1";

const std::vector<Context> training_contexts = {
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
  for (const Field& field : fields_of(config)) {
    if (field.path() == key) return test::another_value(field);
  }
  return "";
}

/// The parts that a key should change according to its ChangeRule; nullopt for keys that change
/// weights and the parts that depend on weights.
std::optional<Parts> changes_by_rule(const std::string& key) {
  const SavePolicy policy = find_field(key)->policy;
  const bool changes_weights = policy.stored && policy.change != ChangeRule::free;
  return changes_weights ? std::nullopt : std::optional(Parts{});
}

/// Whether both runs have the same parameters at all steps at which both have a checkpoint.
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
  if (what == weights) return same_weights(a, b);
  if (what == training) return rows_in(a, "train") == rows_in(b, "train");
  if (what == validation) return rows_in(a, "validation") == rows_in(b, "validation");
  return steps_of(a) == steps_of(b);
}

/// Checks that the checkpoint has the config of the run, except process settings, which have their
/// defaults.
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

/// Trains with and without a value. Trains without the value only once for all keys.
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
    const std::optional<Parts> changes = row.changes ? row.changes : changes_by_rule(row.key);
    if (!changes) {
      CHECK_FALSE(same_weights(with, found->second));
      // A key of the schedule changes the learning rate within a few steps.
      if (context.section == "schedule") CHECK_FALSE(same(with, found->second, training));
      return;
    }
    for (const Part part : all) {
      CAPTURE(static_cast<int>(part));
      const auto may_differ = uncertain.find(row.key);
      if (may_differ != uncertain.end() && may_differ->second == part) continue;
      CHECK(same(with, found->second, part) == !changes->contains(part));
    }
  }

 private:
  const TaskWorkplace& work_;
  const TaskCase& task_;
  std::map<std::vector<std::string>, Finished> without_{};
};

}  // namespace

TEST_CASE("every key of a run changes only the documented parts, for every kind of model") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.name());
    Comparison comparison(work, task);
    for (const Context& context : training_contexts) {
      for (const std::string& name :
           keys_in_use(work.config(task, context.overrides), context.section)) {
        const std::string key = context.section + "." + name;
        const bool lacks_lengths = find_task(task.kind).traits().reads_images;
        if (run_keys_tested_elsewhere.contains(key)) continue;
        if (key == "train.batch_tokens" && lacks_lengths) continue;
        for (const Row& row : rows_of(key, context)) comparison.check(row, context);
      }
    }
  }
}

TEST_CASE("rows name existing keys, and contexts include every optimizer and schedule") {
  std::set<std::string> keys;
  for (const ConfigKey& key : config_keys()) keys.insert(key.path());
  for (const Row& row : rows) CHECK_MESSAGE(keys.contains(row.key), row.key);
  for (const std::string& key : run_keys_tested_elsewhere) CHECK_MESSAGE(keys.contains(key), key);
  const auto in = [](const char* section) {
    return static_cast<std::size_t>(
        std::ranges::count(training_contexts, section, &Context::section));
  };
  CHECK(in("optimizer") == choices_of<OptimizerKind>.size());
  CHECK(in("schedule") == choices_of<ScheduleKind>.size());
}

TEST_CASE("train.dtype is the precision of every stored number") {
  const TaskWorkplace work;
  for (const auto& [dtype, type] :
       {std::pair("float32", ElementType::float32), std::pair("float64", ElementType::float64)}) {
    const Finished run = train_here(work, task_cases.front(),
                                    {"train.steps=1", std::string("train.dtype=") + dtype});
    std::size_t tensors = 0;
    for (const auto& [path, array] : run.checkpoints.at(1)) {
      if (!path.starts_with("parameters/") && !contains(path, "_moment/")) continue;
      ++tensors;
      CHECK(array.type == type);
    }
    CHECK(tensors > 0);
  }
}

TEST_CASE("a run of every task prints its data size, and stores fingerprint and vocabularies") {
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
    // Training with a Trainer, without the program, gives the same results.
    const Finished here = train_here(work, task, {});
    CHECK(here.metrics == run.metrics);
    CHECK(same_weights(here, run));
  }
}

TEST_CASE("a run of every kind of model starts from the weights of train.initialize_from") {
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

TEST_CASE("without dropout, accumulating two batches is equivalent to training with their union") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.name());
    const std::size_t examples = load_corpus(work.config(task).data).train.size();
    // In both runs an epoch has one step.
    const auto run = [&](std::size_t batch_size, std::size_t accumulate) {
      return train_here(
          work, task,
          {"model.dropout=0", "train.steps=4", fmt::format("train.batch_size={}", batch_size),
           fmt::format("train.accumulate={}", accumulate)});
    };
    const Finished two = run((examples + 1) / 2, 2), one = run(examples, 1);
    CHECK(distance(weights_in(two.checkpoints.at(4)), weights_in(one.checkpoints.at(4))) < 1e-9);
  }
}

}  // namespace tapestry
