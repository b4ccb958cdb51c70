#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/durability/random_runs/observed.h"
#include "tests/durability/random_runs/plan.h"

/// A model of a run without any arithmetic: what the documentation says a process prints, returns
/// and leaves on the disk.
namespace tapestry::random_runs {

/// The place of a batch in the data, both from 0.
struct Position {
  std::uint64_t epoch = 0, batch = 0;
};

/// What one step, taken from a position of the data, is like.
struct StepData {
  Position from;
  bool finite = true;
  std::uint64_t targets = 0;
  Position next;
};

/// A row of metrics.csv, and the states of the weights that its values follow from.
struct ExpectedRow {
  std::uint64_t step = 0, epoch = 0;
  bool training = true;
  std::uint64_t targets = 0;
  std::string weights;  ///< a validation's; training: of the only step it covers, else empty
};

/// What the rows change that only the end of a run adds.
struct StateBeforeEnd {
  std::uint64_t targets = 0, steps_since_log = 0;
  double best_loss = 0.0;
  std::string best_weights;
  std::uint64_t best_step = 0;
  std::size_t rows_begin = 0, rows_end = 0;
};

/// The state of a run between two steps.
struct State {
  std::uint64_t step = 0, updates = 0, targets = 0;
  Position position;
  std::string weights = "start";  ///< names what the weights have learned, step by step
  std::uint64_t steps_since_log = 0;
  double best_loss = std::numeric_limits<double>::infinity();
  std::string best_weights;  ///< that have it; empty before the first validation
  std::uint64_t best_step = 0, since_best = 0, nan_steps = 0, scheduled_save = 0;
  std::vector<std::string> history;  ///< "step S: KIND"
  std::vector<ExpectedRow> rows;
  Settings settings;
  std::size_t data = 0;
  bool validation_pending = false;
  std::optional<StateBeforeEnd> before_end;
};

/// The run directory.
struct Disk {
  std::map<std::uint64_t, State> checkpoints;
  std::set<std::uint64_t> damaged;
  std::optional<std::vector<SettingText>> config;  ///< of config.yaml, process settings included
  std::set<std::uint64_t> reports;                 ///< steps that were not finite and described
  std::optional<std::vector<ExpectedRow>> metrics;
};

/// What is known of the values that a run computes: the same weights give the same numbers.
class Values {
 public:
  std::vector<StepData> steps[2];                 ///< by version of the data, in their order
  std::map<std::string, double> validation_loss;  ///< by weights
  std::map<std::string, double> training_loss;    ///< by the weights that the step leads to
  std::map<std::string, std::string> digest;      ///< by weights
  std::map<std::uint64_t, double> learning_rate;  ///< by step

  StepData at(std::size_t data, Position position) const;
};

/// What a process is expected to do.
struct Expected {
  int code = 0;
  std::vector<std::string> events;    ///< see events_of() in comparison.h
  std::string error;                  ///< part of what is on standard error
  bool runs_other = false;            ///< Process::other runs
  bool cleans_up = false;             ///< removes temporary files that killed processes left
  std::shared_ptr<Expected> other{};  ///< what Process::other does
};

/// What a process does to `disk`, which becomes what it leaves. Losses of validations that are not
/// known yet are taken from `outcome`, and learned.
Expected simulate(const Sequence& sequence, const Process& process, Values& values,
                  const Outcome& outcome, Disk& disk);

}  // namespace tapestry::random_runs
