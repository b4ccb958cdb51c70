#include "tests/train/wiring/train_finished.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "tests/support/contains.h"
#include "tests/support/threads.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_directory.h"
#include "train/error.h"
#include "train/output/progress.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"
#include "train/trainer.h"

namespace tapestry::test {
namespace {

const std::string parameters_group = "parameters/";

/// The line of a row up to what depends on the clock.
std::string line_of(const Config& config, const MetricsRow& row, bool best) {
  if (row.split == "validation") {
    return fmt::format("validation at step {}: {}{}\n", row.step, printed_scores(config, row),
                       best ? "  (best so far)" : "");
  }
  return fmt::format(
      "step {}/{}  epoch {}  loss {:.4f}  perplexity {:.3f}  lr {:.2e}  gradient {:.3f}  ",
      row.step, config.train.steps, row.epoch, row.loss, row.perplexity, *row.learning_rate,
      *row.gradient_norm);
}

/// Files whose changes need not survive a loss of power.
class UnsyncedFiles : public FileSystem {
 public:
  int fsync(int) override { return 0; }
};

bool near(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

bool near(const std::optional<double>& a, const std::optional<double>& b, double tolerance) {
  return a.has_value() == b.has_value() && (!a || near(*a, *b, tolerance));
}

}  // namespace

Finished finished(const Workplace& work, const std::string& run_dir, Outcome outcome) {
  Finished run{.outcome = std::move(outcome),
               .metrics = read_text(work / (run_dir + "/metrics.csv")),
               .checkpoints = {}};
  const RunDirectory directory(work / run_dir);
  for (const std::uint64_t step : directory.steps()) {
    run.checkpoints.emplace(step, read_checkpoint(directory.checkpoint_path(step)));
  }
  return run;
}

Finished train(const TaskWorkplace& work, const TaskCase& task,
               const std::vector<std::string>& overrides) {
  const std::string run_dir = "runs/" + task.name();
  std::filesystem::remove_all(work / run_dir);
  std::vector<std::string> arguments = {"train", task.name() + ".yaml"};
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  return finished(work, run_dir, work.run(arguments));
}

Finished train_here(const TaskWorkplace& work, const TaskCase& task,
                    const std::vector<std::string>& overrides) {
  const std::string run_dir = "here/" + task.name();
  std::filesystem::remove_all(work / run_dir);
  std::filesystem::create_directories(work / "here");
  const Config config = work.config(task, overrides);
  const test::Threads threads(config.train.threads);
  const Corpus corpus = load_corpus(config.data);
  UnsyncedFiles files;
  RunDirectory directory(work / run_dir, files);
  directory.create();
  Outcome outcome{.code = 0, .out = "\n", .err = ""};
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const screen = ::open_memstream(&text, &size);
  try {
    Progress progress(screen, 0, config.train.steps);
    Trainer(config, corpus, directory, progress).run();
  } catch (const NumericError& error) {
    outcome.code = 6;
    outcome.err = error.what();
  }
  std::fclose(screen);
  outcome.out += text;
  std::free(text);
  return finished(work, run_dir, outcome);
}

Values weights_in(const ArrayStore& checkpoint) {
  Values values;
  for (const auto& [path, array] : checkpoint) {
    if (!path.starts_with(parameters_group)) continue;
    std::vector<double>& to = values[path.substr(parameters_group.size())];
    if (array.type == ElementType::float64) {
      const auto from = checkpoint.get<double>(path);
      to.assign(from.begin(), from.end());
    } else {
      const auto from = checkpoint.get<float>(path);
      to.assign(from.begin(), from.end());
    }
  }
  return values;
}

double distance(const Values& a, const Values& b) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0.0;
  for (const auto& [name, values] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != values.size()) return INFINITY;
    for (std::size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, std::abs(values[i] - other->second[i]));
    }
  }
  return worst;
}

void check_metrics(const std::string& metrics, const std::vector<MetricsRow>& expected,
                   double tolerance) {
  const std::vector<MetricsRow> found = parse_metrics(metrics);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const MetricsRow &a = found[i], &b = expected[i];
    CAPTURE(b.step);
    CAPTURE(b.split);
    CHECK(a.step == b.step);
    CHECK(a.epoch == b.epoch);
    CHECK(a.split == b.split);
    CHECK_MESSAGE(near(a.loss, b.loss, tolerance), a.loss, " and ", b.loss);
    CHECK_MESSAGE(near(a.perplexity, b.perplexity, tolerance), a.perplexity, " and ", b.perplexity);
    CHECK(near(a.accuracy, b.accuracy, tolerance));
    CHECK(near(a.exact_match, b.exact_match, tolerance));
    CHECK(near(a.bleu, b.bleu, tolerance));
    CHECK(near(a.chrf, b.chrf, tolerance));
    CHECK(near(a.learning_rate, b.learning_rate, 1e-12));
    CHECK(near(a.gradient_norm, b.gradient_norm, tolerance));
    CHECK(a.tokens == b.tokens);
  }
}

void check_screen(const std::string& screen, const Config& config, const Replay& expected) {
  double best = INFINITY;
  std::size_t lines = 0;
  for (const MetricsRow& row : expected.rows) {
    const bool by_loss = config.train.best_metric == "loss";
    const double value = by_loss ? row.loss : -row.accuracy.value_or(0.0);
    const bool is_best = row.split == "validation" && value < best;
    if (is_best) best = value;
    const std::string line = line_of(config, row, is_best);
    CHECK_MESSAGE(contains(screen, "\n" + line), line);
    ++lines;
  }
  std::istringstream all(screen);
  for (std::string line; std::getline(all, line);) {
    if (line.starts_with("step ") || line.starts_with("validation at step ")) --lines;
  }
  CHECK(lines == 0);
}

void check_as_replayed(const Finished& run, const Config& config, const Replay& expected) {
  CHECK(run.outcome.code == 0);
  CHECK(run.outcome.err == "");
  const bool rounded = config.train.dtype == DType::float32;
  check_metrics(run.metrics, expected.rows, rounded ? 1e-3 : 1e-9);
  if (!rounded) check_screen(run.outcome.out, config, expected);
  std::vector<std::uint64_t> files;
  for (const auto& saved : run.checkpoints) {
    const std::uint64_t step = saved.first;
    const ArrayStore& checkpoint = saved.second;
    files.push_back(step);
    if (!expected.weights.contains(step)) continue;
    CAPTURE(step);
    CHECK(distance(weights_in(checkpoint), expected.weights.at(step)) < (rounded ? 1e-3 : 1e-8));
    CHECK(checkpoint.get_text("train/metrics").size() <= run.metrics.size());
  }
  CHECK(files == expected.files);
  REQUIRE_FALSE(run.checkpoints.empty());
  const ArrayStore& last = run.checkpoints.rbegin()->second;
  CHECK(last.get_scalar<std::uint64_t>("train/step") == expected.steps);
  CHECK(last.get_scalar<std::uint64_t>("train/best_step") == expected.best_step.value_or(0));
  CHECK(last.get_scalar<std::uint64_t>("train/validations_since_best") ==
        expected.validations_since_best);
}

void check_evaluation(const Workplace& work, const std::string& run_dir, const Config& config,
                      const Corpus& corpus, const Replay& expected) {
  const std::uint64_t step = expected.best_step.value_or(expected.steps);
  const Outcome done = work.run({"evaluate", run_dir});
  CHECK(done.code == 0);
  CHECK(done.err == "");
  CHECK(contains(done.out, fmt::format("step-{:08}.h5, step {}", step, step)));
  const auto line = [&](const char* part, const std::vector<Example>& examples) {
    const MetricsRow scores =
        scores_of(config, corpus, expected.weights.at(step), examples, examples.size());
    return fmt::format("\n{:<10}  {} held-out {}: {}\n", part, examples.size(),
                       find_task(config).words(config).examples, printed_scores(config, scores));
  };
  for (const auto& [part, examples] :
       {std::pair("validation", &corpus.validation), std::pair("test", &corpus.test)}) {
    const std::string expected_line = line(part, *examples);
    CHECK_MESSAGE(contains(done.out, expected_line), expected_line, done.out);
  }
}

}  // namespace tapestry::test
