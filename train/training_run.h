#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/config/config.h"
#include "train/platform/interruptions.h"
#include "train/storage/run_directory.h"
#include "train/trainer.h"

namespace tapestry {

/// A new or resumed run with its config and data.
struct TrainingRun {
  Config config;
  const Corpus& corpus;
  RunDirectory directory;
  std::uint64_t first_step = 0;  ///< number of steps done by earlier processes

  /// Loads initial or saved values into the trainer. Returns lines for the log.
  std::function<std::vector<std::string>(Trainer& trainer)> load_state;

  /// Creates and locks the run directory, unless that has been done. Called after all other checks
  /// and before anything is written.
  std::function<void(RunDirectory& directory)> claim_directory = [](RunDirectory&) {};

  TimeLimit::Clock::time_point started;  ///< start of the process, from which train.max_time counts
  bool profile = false;                  ///< print the time of each operation at the end
  bool dry_run = false;                  ///< compute one step, write nothing
};

/// Trains until the run is finished or interrupted: checks the memory, creates the trainer, loads
/// its state, prepares the run directory, prints a description of the run and how it ended. Returns
/// the exit code. A dry run ends after one step and leaves the run directory alone.
///
/// throws  ConfigError, DataError, CheckpointError, MemoryError, OutputError, NumericError.
int run_training(const TrainingRun& run);

}  // namespace tapestry
