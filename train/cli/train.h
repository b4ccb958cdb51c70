#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/loop/progress.h"
#include "train/loop/training_run.h"
#include "train/parallel/process_group.h"
#include "train/system/interruptions.h"
#include "train/tasks/data_source.h"

/// The two ways in which the command `train` begins. All processes of a group call them; rank 0
/// writes the run directory and prints.
namespace tapestry::train_cli {

/// The arguments of the command `train`.
struct TrainArguments {
  std::string config;  ///< a config file; may be empty if `run` is not
  std::string run;     ///< a run directory to resume; empty: the run directory of the config
  std::vector<std::string> overrides;  ///< section.key=value
  std::vector<std::string> allowed;    ///< keys that a resumed run may change
  bool resume = false;                 ///< continue a run
  bool fresh = false;                  ///< move an existing run aside
  bool profile = false;                ///< print the time of each operation at the end
  bool dry_run = false;                ///< compute one step, write nothing
  bool quiet = false;                  ///< print nothing on standard output
  bool json = false;                   ///< print one JSON object per line
  std::size_t until = 0;               ///< stop after this step; 0: train.steps

  /// The step after which the process stops, if it is given.
  std::optional<std::uint64_t> last_step() const {
    return until == 0 ? std::nullopt : std::optional<std::uint64_t>(until);
  }
  /// The format of standard output.
  ProgressFormat format() const { return json ? ProgressFormat::json : ProgressFormat::text; }
};

/// The run that the arguments ask for. The caller adds TrainingRun::load_state, and what only a new
/// or only a resumed run has.
///
/// started  when the process started, from which train.max_time counts
TrainingRun make_training_run(const TrainArguments& arguments, const Config& config,
                              const Corpus& corpus, const RunDirectory& directory,
                              TimeLimit::Clock::time_point started, ProcessGroup& group);

/// What `load` returns. If it uses a cache, which has the key `data`, rank 0 makes it
/// and the others read it.
template <class Load>
auto load_with_cache(DataOptions& data, ProcessGroup& group, const Load& load) {
  // Files of other sizes, which are refused later, may make a cache necessary for some.
  if (!group.any_process(uses_cache(data)) || group.size() == 1) return load();
  decltype(load()) loaded;
  group.on_rank_0([&] { loaded = load(); });
  if (group.is_rank_0()) return loaded;
  data.training.cache_is_read_only = true;
  return load();
}

/// Starts a new run; returns the exit code.
///
/// started  when the process started, from which train.max_time counts
/// throws   as run_training(); ConfigError if the run directory has a run, or other files.
int start_run(const TrainArguments& arguments, TimeLimit::Clock::time_point started,
              ProcessGroup& group);

/// Resumes a run from its newest usable checkpoint; returns the exit code.
///
/// throws   as run_training(); ConfigError if a key differs from the checkpoint's that may not;
///          CheckpointError if there is no usable checkpoint.
int resume_run(const TrainArguments& arguments, TimeLimit::Clock::time_point started,
               ProcessGroup& group);

}  // namespace tapestry::train_cli
