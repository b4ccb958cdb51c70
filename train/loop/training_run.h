#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/loop/trainer.h"
#include "train/parallel/process_group.h"
#include "train/system/interruptions.h"

namespace tapestry {

/// A new or resumed run with its config and data.
struct TrainingRun {
  Config config;
  const Corpus& corpus;
  RunDirectory directory;
  std::uint64_t first_step = 0;  ///< number of steps done by earlier processes

  /// Loads initial or saved values into the trainer. Returns lines for the log.
  std::function<std::vector<std::string>(Trainer& trainer)> load_state;

  /// Creates and locks the run directory, unless that has been done. Called by rank 0 of the group,
  /// after all other checks and before anything is written.
  std::function<void(RunDirectory& directory)> claim_directory = [](RunDirectory&) {};

  /// Writes the report of the run into its directory; called as train.report_every specifies.
  /// Errors cause a warning.
  std::function<void(const Trainer& trainer)> write_report = [](const Trainer&) {};

  TimeLimit::Clock::time_point started;  ///< start of the process, from which train.max_time counts
  bool profile = false;                  ///< print the time of each operation at the end
  bool dry_run = false;                  ///< compute one step, write nothing
  std::optional<std::uint64_t> last_step{};  ///< the process stops after this step
  bool quiet = false;  ///< print nothing on standard output, and warnings on standard error
  ProgressFormat format = ProgressFormat::text;  ///< of what is printed on standard output
  ProcessGroup& group = single_process();        ///< the processes that train together
};

/// throws  ConfigError if a process would have nothing to compute, because a step has fewer
///         micro-batches (train.accumulate) than there are processes.
void require_work_for_all(std::size_t processes, const Config& config);

/// Trains until the run is finished or interrupted: checks the memory, creates the trainer, loads
/// its state, prepares the run directory, prints a description of the run and how it ended. Returns
/// the exit code. A dry run ends after one step and leaves the run directory alone.
///
/// All processes of a group call it; rank 0 writes the run directory and prints. Refused are
/// processes of another program, config or data than rank 0, and more processes than a step
/// has micro-batches.
///
/// throws  PeerFailure, ConfigError, DataError, CheckpointError, MemoryError, OutputError,
///         NumericError.
int run_training(const TrainingRun& run);

}  // namespace tapestry
