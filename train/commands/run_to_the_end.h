#pragma once

#include <chrono>
#include <string>

#include "data/corpus.h"
#include "train/config/config.h"
#include "train/progress.h"
#include "train/storage/run_directory.h"
#include "train/system/available_memory.h"
#include "train/system/run_signals.h"
#include "train/trainer.h"

/// What starting and resuming a run share.
namespace tapestry {

/// Writes the config of a run where a user finds it. throws OutputError.
void write_config(const RunDirectory& directory, const Config& config);

/// Tells the user of the data, the model and what may slow the run down.
void describe(const Trainer& trainer, const Corpus& corpus, const std::string& run_dir,
              Progress& progress);

/// Tells the user how much memory the run needs of what was available before its model was made,
/// and takes what its largest step needs, so that a lack shows now rather than after hours.
/// throws  kernels::OutOfMemory.
void prepare_memory(const Trainer& trainer, const Corpus& corpus, const AvailableMemory& available,
                    Progress& progress);

/// A process at work for a run: from when, asked for what, and whether it is to be timed.
struct RunProcess {
  TimeLimit::Clock::time_point started;
  RunSignals& signals;
  bool profiled;
};

/// Trains until the run ends or has to stop; says why and how to go on. Returns the exit code.
int run_to_the_end(Trainer& trainer, const std::string& run_dir, const RunProcess& process,
                   Progress& progress);

}  // namespace tapestry
