#include "tests/durability/random_runs/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "tests/support/contains.h"

namespace tapestry::random_runs {
namespace {

using test::contains;

/// Warnings that depend on the machine.
bool is_about_machine(const std::string& line) {
  for (const char* subject :
       {"warning: threads: ", "warning: other programs", "warning: OpenBLAS", "warning: memory",
        "warning: the learning rate is 0", "warning: training waits"}) {
    if (line.starts_with(subject)) return true;
  }
  return false;
}

/// The value of a map at a key; learned, if it is new.
template <class T>
bool agrees(std::map<std::string, T>& known, const std::string& key, const T& value) {
  return known.emplace(key, value).first->second == value;
}

std::string kind_of_event(const std::string& line) {
  if (contains(line, ", which is skipped")) return "skip";
  if (contains(line, ": rolled back: ")) return "back";
  if (contains(line, "(data.train_images): found ")) return "data";
  if (contains(line, ": changed model.dropout: ")) return "dropout";
  return line;
}

/// Compares what two sides say and collects the differences.
class Comparison {
 public:
  explicit Comparison(Values& values) : values_(values) {}

  template <class T>
  void equal(const std::string& what, const T& found, const T& expected) {
    if (found == expected) return;
    found_.push_back(fmt::format("{}: found {}, expected {}", what, found, expected));
  }

  void close(const std::string& what, double found, double expected) {
    if (found == expected || std::abs(found - expected) <= 1e-9 * std::abs(expected)) return;
    found_.push_back(fmt::format("{}: found {}, expected {}", what, found, expected));
  }

  void add(std::string difference) { found_.push_back(std::move(difference)); }
  std::vector<std::string> take() { return std::move(found_); }

  void rows(const std::string& where, const std::vector<MetricsRow>& found,
            const std::vector<ExpectedRow>& expected) {
    equal(where + ": rows", found.size(), expected.size());
    for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
      row(fmt::format("{}: row {}", where, i + 1), found[i], expected[i]);
    }
  }

  void state(const std::string& where, const StoredState& found, const State& expected) {
    const auto number = [&](const char* what, std::uint64_t a, std::uint64_t b) {
      equal(where + ": " + what, a, b);
    };
    number("step", found.step, expected.step);
    number("epoch", found.epoch, expected.position.epoch);
    number("batch", found.batch, expected.position.batch);
    number("updates", found.updates, expected.updates);
    number("targets since the last log line", found.targets, expected.targets);
    number("best step", found.best_step, expected.best_step);
    number("validations since the best", found.since_best, expected.since_best);
    number("steps that were not finite", found.nan_steps, expected.nan_steps);
    number("scheduled save", found.scheduled_save, expected.scheduled_save);
    if (!agrees(values_.digest, expected.weights, found.values)) {
      add(where + ": other weights or optimizer state than another run had after the same steps");
    }
    std::vector<std::string> history;
    for (const std::string& line : found.history) {
      history.push_back(fmt::format("{}: {}", line.substr(0, line.find(':')), kind_of_event(line)));
    }
    equal(where + ": history", fmt::format("{}", fmt::join(history, "; ")),
          fmt::format("{}", fmt::join(expected.history, "; ")));
    rows(where, found.metrics, expected.rows);
    if (expected.best_weights.empty()) {
      equal(where + ": best loss", found.best_loss, expected.best_loss);
    } else if (const auto best = values_.validation_loss.find(expected.best_weights);
               best != values_.validation_loss.end()) {
      close(where + ": best loss", found.best_loss, best->second);
    }
    auto settings = to_text(expected.settings);
    settings.push_back({"train.threads", "0"});  // of no process
    settings.push_back({"train.max_time", "0s"});
    settings.push_back({"train.detect_anomaly", "false"});
    config(where, found.config, settings);
  }

  void config(const std::string& where, const std::string& found,
              const std::vector<SettingText>& expected) {
    for (const auto& [key, value] : expected) {
      const std::string line = fmt::format("\n  {}: {}\n", key.substr(key.find('.') + 1), value);
      if (!contains(found, line)) add(fmt::format("{}: config: {} is not {}", where, key, value));
    }
  }

 private:
  void row(const std::string& where, const MetricsRow& found, const ExpectedRow& expected) {
    equal(where + ": step", found.step, expected.step);
    equal(where + ": epoch", found.epoch, expected.epoch);
    equal(where + ": split", found.training, expected.training);
    if (expected.training) {
      equal(where + ": targets", found.targets, expected.targets);
      const double rate =
          values_.learning_rate.emplace(expected.step, found.learning_rate).first->second;
      equal(where + ": learning rate", found.learning_rate, rate);
    }
    if (expected.weights.empty()) return;
    auto& losses = expected.training ? values_.training_loss : values_.validation_loss;
    close(where + ": loss", found.loss, losses.emplace(expected.weights, found.loss).first->second);
  }

  Values& values_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> events_of(const Outcome& outcome) {
  std::vector<std::string> events;
  for (const std::string& line : outcome.lines) {
    const char* text = line.c_str();
    unsigned long long a = 0, b = 0, c = 0;
    if (contains(line, "an older checkpoint is used")) {
      events.emplace_back("older checkpoint");
    } else if (contains(line, "; another checkpoint is used")) {
      events.emplace_back("another checkpoint");
    } else if (std::sscanf(text, "resuming run at step %llu of %llu", &a, &b) == 2) {
      events.push_back(fmt::format("resuming {} of {}", a, b));
    } else if (line.starts_with("changed ")) {
      events.push_back(line);
    } else if (line.starts_with("warning: changed ")) {
      events.push_back(contains(line, "(data.train_images)") ? "warning changed data"
                                                             : "warning " + line.substr(9));
    } else if (const auto at = line.find("; threads: "); at != line.npos) {
      events.push_back(fmt::format("threads {}", std::stoull(line.substr(at + 11))));
    } else if (std::sscanf(text, "step %llu/%llu epoch %llu", &a, &b, &c) == 3) {
      events.push_back(fmt::format("log {}/{} epoch {}", a, b, c));
    } else if (std::sscanf(text, "validation at step %llu:", &a) == 1) {
      events.push_back(
          fmt::format("validation {}{}", a, contains(line, "(best so far)") ? " best" : ""));
    } else if (std::sscanf(text, "warning: step %llu:", &a) == 1) {
      const auto begin = line.find(": ", 10) + 2;
      events.push_back(fmt::format("nan {}: {}", a, line.substr(begin, line.find(',') - begin)));
    } else if (std::sscanf(text, "rolled back to step %llu", &a) == 1) {
      events.push_back(fmt::format("back {}", a));
    } else if (std::sscanf(text, "saved at step %llu, as a signal requested", &a) == 1) {
      events.push_back(fmt::format("saved {}", a));
    } else if (const auto open = line.rfind(" continues (");
               line.starts_with("warning: not saved: ")) {
      events.push_back(fmt::format("not saved {}", std::stoull(line.substr(open + 12))));
    } else if (std::sscanf(text, "stopped by signal %llu and saved at step %llu;", &a, &b) == 2) {
      events.push_back(fmt::format("stopped by signal {} at {}", a, b));
    } else if (std::sscanf(text, "stopped by train.max_time (1h) and saved at step %llu;", &a) ==
               1) {
      events.push_back(fmt::format("stopped by time at {}", a));
    } else if (std::sscanf(text, "done: %llu steps, no new best in %llu validations;", &a, &b) ==
               2) {
      events.push_back(fmt::format("done {}, no new best in {}", a, b));
    } else if (std::sscanf(text, "done: %llu steps", &a) == 1) {
      events.push_back(fmt::format("done {}", a));
    } else if (contains(line, " is finished: ")) {
      events.emplace_back("finished");
    } else if (line.starts_with("warning: train.steps is ")) {
      // Of a fallback to a checkpoint with other steps; what it does is compared.
    } else if (line.starts_with("warning: ") && !is_about_machine(line)) {
      events.push_back(line);
    }
  }
  return events;
}

std::vector<std::string> differences(const Disk& expected, const std::filesystem::path& run,
                                     bool may_have_temporaries, Values& values) {
  Comparison comparison(values);
  std::vector<std::uint64_t> damaged, whole, expected_whole;
  const auto found = read_checkpoints(run, damaged);
  for (const auto& [step, state] : found) whole.push_back(step);
  for (const auto& [step, state] : expected.checkpoints) expected_whole.push_back(step);
  const auto list = [](const auto& steps) { return fmt::format("{}", fmt::join(steps, ", ")); };
  comparison.equal("whole checkpoints", list(whole), list(expected_whole));
  comparison.equal("damaged checkpoints", list(damaged), list(expected.damaged));
  for (const auto& [step, state] : found) {
    const auto same = expected.checkpoints.find(step);
    if (same == expected.checkpoints.end()) continue;
    comparison.state(fmt::format("checkpoint {}", step), state, same->second);
  }
  if (expected.config) {
    comparison.config("config.yaml", read_text(run / "config.yaml"), *expected.config);
  }
  const bool has_metrics = std::filesystem::exists(run / "metrics.csv");
  comparison.equal("metrics.csv exists", has_metrics, expected.metrics.has_value());
  if (has_metrics && expected.metrics) {
    comparison.rows("metrics.csv", parse_metrics(read_text(run / "metrics.csv")),
                    *expected.metrics);
  }
  std::vector<std::string> reports, expected_reports;
  for (const std::uint64_t step : expected.reports) {
    expected_reports.push_back(fmt::format("non-finite-step-{:08}.txt", step));
  }
  if (std::filesystem::exists(run)) {
    for (const auto& entry : std::filesystem::directory_iterator(run)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("non-finite-step-")) reports.push_back(name);
    }
  }
  std::ranges::sort(reports);
  comparison.equal("reports", list(reports), list(expected_reports));
  if (!may_have_temporaries && std::filesystem::exists(run)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(run)) {
      const std::string name = entry.path().filename().string();
      if (contains(name, ".tmp-")) comparison.add(name + " was left over");
    }
  }
  return comparison.take();
}

}  // namespace tapestry::random_runs
