#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/train/wiring/keys_tasks.h"
#include "tests/train/wiring/train_finished.h"

/// Tables of what the keys of a config change in a run, and what they leave as it is.
namespace tapestry::test {

/// What of two runs is compared, byte by byte.
enum class Seen {
  weights,     ///< parameters in checkpoints of the same step
  training,    ///< rows of training in metrics.csv
  validation,  ///< rows of validation in metrics.csv
  files        ///< steps that have a checkpoint at the end
};

using enum Seen;

/// A key and one other value of it.
struct KeyRow {
  std::string key;  ///< `section.key`
  std::string value;
  std::set<Seen> changes;             ///< these differ from the run without the value
  std::set<Seen> keeps;               ///< these have the same bytes
  std::vector<std::string> before{};  ///< overrides of both runs
  std::string says{};                 ///< stands on the screen with the value and not without
};

/// Whether a run is one of the program or of a Trainer in this process.
enum class How { program, trainer };

/// The runs that rows are compared with, so that each is made once.
class Baselines {
 public:
  explicit Baselines(const TaskWorkplace& work) : work_(work) {}
  const Finished& of(How how, const TaskCase& task, const std::vector<std::string>& overrides);

 private:
  const TaskWorkplace& work_;
  std::map<std::tuple<How, std::string, std::vector<std::string>>, Finished> runs_;
};

/// Trains with and without the value; checks each run against its replay, and the differences of
/// the two runs against the row.
void check_row(How how, const TaskWorkplace& work, const TaskCase& task, const KeyRow& row,
               Baselines& baselines);

/// Settings of the process, which no checkpoint keeps.
inline const std::set<std::string> process_settings = {"train.threads", "train.bucket_size",
                                                       "train.run_dir", "train.max_time",
                                                       "train.detect_anomaly"};

}  // namespace tapestry::test
