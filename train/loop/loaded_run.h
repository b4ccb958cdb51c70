// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/run_directory.h"
#include "train/checkpoint/run_lock.h"
#include "train/config/config.h"
#include "train/loop/trainer.h"
#include "train/loop/training_run.h"
#include "train/models/trained_model.h"
#include "train/parallel/process_group.h"
#include "train/tasks/data_source.h"

namespace tapestry {

/// throws  ConfigError if the directory has a run.
void require_no_run(const RunDirectory& directory);
/// throws  ConfigError if the directory has files that do not belong to a run.
void require_no_files(const RunDirectory& directory);

/// A run with its config and data, before its next step. The run is new or continues from its
/// newest usable checkpoint.
struct LoadedRun {
  RunDirectory directory;
  Config config;
  Corpus corpus{};

  // Only for a new run.
  std::optional<TrainedModel> pretrained{};  ///< model named by train.initialize_from
  std::unique_ptr<RunLock> cache_lock{};     ///< lock of the data cache, held since it was created

  // Only for a resumed run.
  std::optional<ResumePlan> resumed{};
  std::vector<std::string> data_changes{};  ///< permitted changes, for the history

  std::uint64_t first_step() const { return resumed ? resumed->checkpoint.step : 0; }
};

/// Reads the data of a new run, and the pretrained model that it starts from
/// (train.initialize_from).
///
/// throws  ConfigError if the directory has other files, or a run although `options.fresh` is not
///         set; DataError, CheckpointError, OutputError.
LoadedRun load_new_run(Config config, const RunOptions& options, ProcessGroup& group);

/// Reads the newest usable checkpoint of a run and its data, and locks the run directory unless it
/// is a dry run.
///
/// returns  nullopt if the run is finished; this has then been printed
/// throws   ConfigError if a key that must not change differs from the checkpoint; CheckpointError
///          if there is no usable checkpoint; DataError, OutputError; PeerFailure.
std::optional<LoadedRun> load_resumed_run(const RunOptions& options, ProcessGroup& group);

/// Creates and locks the directory of a new run. With `fresh`, an old run in it is moved aside, but
/// a data cache made by load_new_run() is kept. Call this in rank 0, before it writes anything else
/// and after everything has been read and checked.
void claim_directory(LoadedRun& run, bool fresh);

/// Loads initial or saved values into the trainer, and releases the memory of the checkpoint.
/// Returns lines for the log. Changes that affect the results are also added to the history.
std::vector<std::string> load_state(LoadedRun& run, Trainer& trainer);

}  // namespace tapestry
