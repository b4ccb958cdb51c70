#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/durability/random_runs/plan.h"
#include "tests/support/temporary_folder.h"

/// Runs the program in a child process, lets events happen to it, and reads what it leaves.
namespace tapestry::random_runs {

/// How a process ended and what it said.
struct Outcome {
  int code = 0;                    ///< exit code; -n if signal n killed it
  std::vector<std::string> lines;  ///< standard output
  std::string error;               ///< standard error
  std::shared_ptr<Outcome> other;  ///< of Process::other, if it ran
};

/// The folder that a sequence works in: config.yaml, data, the run directory `run`.
class Workplace {
 public:
  explicit Workplace(const Sequence& sequence);

  Outcome run(const Process& process);
  void cut_newest_checkpoint() const;
  std::filesystem::path run_directory() const { return folder_ / "run"; }

 private:
  Outcome start(const Process& process, bool lock_is_held);

  test::TemporaryFolder folder_;
  bool images_;
  std::size_t bad_;
};

/// Removes the folders of tests that were killed.
void remove_folders_of_killed_tests();

/// One line of metrics.csv.
struct MetricsRow {
  std::uint64_t step = 0, epoch = 0;
  bool training = true;
  double loss = 0.0, learning_rate = 0.0;
  std::uint64_t targets = 0;
};
std::vector<MetricsRow> parse_metrics(const std::string& csv);

/// What one checkpoint says.
struct StoredState {
  std::uint64_t step = 0, epoch = 0, batch = 0, updates = 0, targets = 0;
  std::uint64_t best_step = 0, since_best = 0, nan_steps = 0, scheduled_save = 0;
  double best_loss = 0.0;
  std::string values;  ///< digest of parameters and optimizer state
  std::vector<std::string> history;
  std::vector<MetricsRow> metrics;
  std::string config;
};

/// The whole checkpoints of a run, by step. `damaged` gets the steps of the others.
std::map<std::uint64_t, StoredState> read_checkpoints(const std::filesystem::path& run,
                                                      std::vector<std::uint64_t>& damaged);

std::string read_text(const std::filesystem::path& path);

}  // namespace tapestry::random_runs
