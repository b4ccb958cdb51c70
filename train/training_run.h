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

/// A new or resumed run whose config and data have been read.
struct TrainingRun {
  Config config;
  const Corpus& corpus;
  RunDirectory directory;
  std::uint64_t first_step = 0;  ///< steps done by earlier processes

  /// Loads initial or resumed values into the trainer. Returns lines for the log.
  std::function<std::vector<std::string>(Trainer& trainer)> load_state;

  /// Creates and locks the run directory, unless that is done. Called when all else that may be
  /// refused has been checked, and before anything is written.
  std::function<void()> claim_directory = [] {};

  TimeLimit::Clock::time_point started;  ///< of the process; train.max_time counts from here
  bool profile = false;                  ///< print the time that each operation took, at the end
};

/// Trains until the run is finished or interrupted: checks the memory, makes the trainer, loads its
/// state, prepares the run directory, prints what the run consists of and how it ended. Returns the
/// exit code.
///
/// throws  ConfigError, DataError, CheckpointError, MemoryError, OutputError, NumericError.
int run_training(const TrainingRun& run);

}  // namespace tapestry
