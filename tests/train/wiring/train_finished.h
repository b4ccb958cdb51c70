#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/train/wiring/keys_tasks.h"
#include "tests/train/wiring/train_replay.h"
#include "train/checkpoint/array_store.h"

/// A run of the program, compared with its replay.
namespace tapestry::test {

struct Finished {
  Outcome outcome;
  std::string metrics;                              ///< metrics.csv
  std::map<std::uint64_t, ArrayStore> checkpoints;  ///< all that are left, by step
};

/// What lies in a run directory after a process of the program.
Finished finished(const Workplace& work, const std::string& run_dir, Outcome outcome);

/// Trains to the end, in a process of the program; the run directory is runs/NAME, which is
/// replaced.
Finished train(const TaskWorkplace& work, const TaskCase& task,
               const std::vector<std::string>& overrides);

/// The same with a Trainer in this process, which waits for no disk. Of a NumericError the outcome
/// has the text and the exit code.
Finished train_here(const TaskWorkplace& work, const TaskCase& task,
                    const std::vector<std::string>& overrides);

/// The values of all parameters in a checkpoint.
Values weights_in(const ArrayStore& checkpoint);

/// The largest difference between values of the same parameters.
double distance(const Values& a, const Values& b);

/// metrics.csv has these rows, to a relative tolerance.
void check_metrics(const std::string& metrics, const std::vector<MetricsRow>& expected,
                   double tolerance = 1e-9);

/// The screen has the lines of these rows, and no other lines of metrics.
void check_screen(const std::string& screen, const Config& config, const Replay& expected);

/// Metrics, screen, checkpoints on disk and the weights in them are those of the replay.
void check_as_replayed(const Finished& run, const Config& config, const Replay& expected);

/// `evaluate` prints the scores of the best weights on the validation and the test set.
void check_evaluation(const Workplace& work, const std::string& run_dir, const Config& config,
                      const Corpus& corpus, const Replay& expected);

}  // namespace tapestry::test
