#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/durability/random_runs/comparison.h"
#include "tests/durability/random_runs/observed.h"
#include "tests/durability/random_runs/plan.h"
#include "tests/durability/random_runs/reference.h"

/// Random sequences of processes of a run against a model of a run: processes that train and resume
/// with other settings and other data, while signals, kills, failed saves, the end of their time,
/// steps that are not finite and other processes come in between. After each process its exit code,
/// what it printed and everything on the disk has to be what the model says, and weights that have
/// learned the same steps have to be the same bits, however the run came there.
///
///     random_runs [--sequences 100000] [--first 1]     that many sequences, from this number on
///
/// A sequence that fails is cut down to one in which nothing can be left out, and shown.
namespace tapestry::random_runs {
namespace {

/// Values that runs have computed so far, for each kind of data.
class ValuesByData {
 public:
  Values& of(const Sequence& sequence) {
    auto& values = values_[sequence.images ? 1 + sequence.bad : 0];
    if (!values) values = learn(sequence);
    return *values;
  }

 private:
  /// Which steps are finite, and how many targets they have: read from a run that skips the others.
  static Values learn(const Sequence& sequence) {
    Values values;
    for (const std::size_t data : {0U, 1U}) {
      if (data == 1 && !sequence.images) break;
      const std::uint64_t steps = sequence.images ? 240 : 60;
      Sequence whole{.images = sequence.images, .bad = sequence.bad, .base = {}, .processes = {}};
      whole.base = {.steps = steps,
                    .log_every = 1,
                    .validate_every = steps,
                    .save_every = steps,
                    .keep_last = 2,
                    .patience = 0,
                    .max_nan_steps = steps,
                    .on_nan = OnNan::skip};
      Workplace place(whole);
      const Outcome outcome = place.run(Process{.data = data});
      if (outcome.code != 0)
        throw std::runtime_error("a run without events fails: " + outcome.error);
      values.steps[data] =
          steps_of(parse_metrics(read_text(place.run_directory() / "metrics.csv")), steps,
                   sequence.images ? batches_per_epoch(data) : 3, sequence.images ? 1 : 2);
    }
    return values;
  }

  /// steps_per_epoch  steps in which the data is read once
  static std::vector<StepData> steps_of(const std::vector<MetricsRow>& rows, std::uint64_t steps,
                                        std::uint64_t steps_per_epoch,
                                        std::uint64_t batches_per_step) {
    const auto position = [&](std::uint64_t step) {
      return Position{.epoch = step / steps_per_epoch,
                      .batch = step % steps_per_epoch * batches_per_step};
    };
    std::vector<StepData> data;
    for (std::uint64_t step = 0; step < steps; ++step) {
      data.push_back({.from = position(step), .finite = false, .next = position(step + 1)});
    }
    for (const MetricsRow& row : rows) {
      if (!row.training) continue;
      data[row.step - 1].finite = true;
      data[row.step - 1].targets = row.targets;
    }
    return data;
  }

  std::array<std::optional<Values>, 4> values_;
};

std::string joined(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n    "));
}

/// Standard error without warnings, such as those about a fallback of a run that is finished.
std::string without_warnings(const std::string& error) {
  std::istringstream lines(error);
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("tapestry: warning: ")) rest += line + "\n";
  }
  return rest;
}

void compare_outcome(const std::string& name, const Outcome& outcome, const Expected& expected,
                     std::vector<std::string>& found) {
  if (outcome.code != expected.code) {
    found.push_back(fmt::format("{}: ends with {}, expected {}; standard error: {}", name,
                                outcome.code, expected.code, outcome.error));
  }
  const auto events = events_of(outcome);
  std::vector<std::string> kept;
  for (const std::string& event : events) {
    const bool with_threads =
        !event.starts_with("threads ") ||
        std::find(expected.events.begin(), expected.events.end(), event) != expected.events.end();
    if (with_threads) kept.push_back(event);
  }
  if (kept != expected.events) {
    found.push_back(fmt::format("{}: says\n    {}\n  expected\n    {}", name, joined(kept),
                                joined(expected.events)));
  }
  if (outcome.error.find(expected.error) == std::string::npos ||
      (expected.error.empty() && !without_warnings(outcome.error).empty())) {
    found.push_back(fmt::format("{}: standard error is `{}`, expected `{}`", name, outcome.error,
                                expected.error));
  }
}

/// What differs from the model, after the first process that does.
std::vector<std::string> failures(const Sequence& sequence, ValuesByData& known) {
  Values& values = known.of(sequence);
  Workplace place(sequence);
  Disk disk;
  bool may_have_temporaries = false;
  std::vector<std::string> found;
  for (std::size_t i = 0; i < sequence.processes.size() && found.empty(); ++i) {
    const Process& process = sequence.processes[i];
    if (process.damages_newest && !disk.checkpoints.empty() && disk.damaged.empty()) {
      place.cut_newest_checkpoint();
      const auto newest = std::prev(disk.checkpoints.end());
      disk.damaged.insert(newest->first);
      disk.checkpoints.erase(newest);
    }
    const Outcome outcome = place.run(process);
    const Expected expected = simulate(sequence, process, values, outcome, disk);
    const std::string name = fmt::format("process {}", i + 1);
    compare_outcome(name, outcome, expected, found);
    if (outcome.other && expected.other) {
      compare_outcome(name + ", the other one", *outcome.other, *expected.other, found);
    }
    if (expected.runs_other != (outcome.other != nullptr)) {
      found.push_back(fmt::format("{}: the other process {}", name,
                                  expected.runs_other ? "does not run" : "runs unexpectedly"));
    }
    may_have_temporaries = outcome.code < 0 || (may_have_temporaries && !expected.cleans_up);
    for (const std::string& difference :
         differences(disk, place.run_directory(), may_have_temporaries, values)) {
      found.push_back(fmt::format("after {}: {}", name, difference));
    }
  }
  return found;
}

/// The same; what is thrown on the way is a failure too.
std::vector<std::string> failures_or_error(const Sequence& sequence, ValuesByData& known) try {
  return failures(sequence, known);
} catch (const std::exception& error) {
  return {error.what()};
}

/// The sequence without everything that it fails without.
Sequence shortest(Sequence sequence, ValuesByData& known) {
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (const Sequence& candidate : simpler(sequence)) {
      if (failures_or_error(candidate, known).empty()) continue;
      sequence = candidate;
      shorter = true;
      break;
    }
  }
  return sequence;
}

int run(std::uint64_t first, std::uint64_t count, std::uint64_t most_failures) {
  remove_folders_of_killed_tests();
  ValuesByData known;
  std::uint64_t tried = 0, failed = 0, processes = 0, events = 0;
  for (std::uint64_t number = first; number < first + count && failed < most_failures; ++number) {
    const Sequence sequence = random_sequence(number);
    ++tried;
    processes += sequence.processes.size();
    for (const Process& process : sequence.processes) events += process.events.size();
    if (failures_or_error(sequence, known).empty()) continue;
    ++failed;
    const Sequence least = shortest(sequence, known);
    fmt::print("sequence {} fails; cut down:\n{}", number, describe(least));
    for (const std::string& failure : failures_or_error(least, known))
      fmt::print("  {}\n", failure);
    std::fflush(stdout);
  }
  fmt::print("{} sequences of {} processes with {} events, {} failed\n", tried, processes, events,
             failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tapestry::random_runs

int main(int argc, char** argv) {
  CLI::App app("Random sequences of processes of a run against a model of a run");
  std::uint64_t sequences = 500, first = 1, most_failures = 3;
  app.add_option("--sequences", sequences, "How many");
  app.add_option("--first", first, "Number of the first one");
  app.add_option("--most-failures", most_failures, "Failures after which to stop");
  CLI11_PARSE(app, argc, argv);
  return tapestry::random_runs::run(first, sequences, most_failures);
}
