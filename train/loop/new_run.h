#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/loop/training_run.h"
#include "train/models/trained_model.h"
#include "train/parallel/process_group.h"
#include "train/tasks/data_source.h"

namespace tapestry {

/// Reads the config of a new run, and applies its process settings to this process.
///
/// throws  ConfigError as load_config(); if the config is a copy of the config of a run and names
///         the directory of that run.
Config load_new_config(const std::string& path, const std::vector<std::string>& overrides);

/// Completes the config of a new run once its data are known: train.epochs becomes train.steps.
///
/// path    of the config file, for errors
/// throws  ConfigError as resolve_epochs(); if the config could not be read back from a checkpoint;
///         as require_validation_for_patience().
void complete_new_config(const std::string& path, const Corpus& corpus, Config& config);

/// throws  ConfigError if the run would stop by validations that it cannot have.
void require_validation_for_patience(const Config& config, const Corpus& corpus);

/// throws  ConfigError if a process would have nothing to compute, because a step has fewer
///         micro-batches (train.accumulate) than there are processes.
void require_work_for_all(std::size_t processes, const Config& config);

/// throws  ConfigError if the directory has a run, or other files that do not belong to a run.
void require_no_run(const RunDirectory& directory);
void require_no_files(const RunDirectory& directory);

/// Returns the result of `load`. If it uses a cache, which has the key `data`, rank 0 makes it
/// and the others read it.
template <class Load>
auto load_with_cache(DataOptions& data, ProcessGroup& group, const Load& load) {
  // Files of other sizes, which are rejected later, may make a cache necessary for some.
  if (!group.any_process(uses_cache(data)) || group.size() == 1) return load();
  decltype(load()) loaded;
  group.on_rank_0([&] { loaded = load(); });
  if (group.is_rank_0()) return loaded;
  data.training.cache_is_read_only = true;
  return load();
}

/// A run before its first step, with its data. An existing run in its directory is moved aside by
/// claim_directory(), when everything has been read and checked, and not before.
class NewRun {
 public:
  /// Reads the data of the run, and the pretrained model with which it begins.
  ///
  /// throws  ConfigError if the directory has other files, or a run although `options.fresh` is
  ///         not set; DataError, CheckpointError, OutputError.
  NewRun(Config config, const RunOptions& options, ProcessGroup& group);

  const Config& config() const { return config_; }
  const Corpus& corpus() const { return initial_.corpus; }
  /// The model whose parameters the run begins with (train.initialize_from); may be null.
  const TrainedModel* pretrained() const { return initial_.model ? &*initial_.model : nullptr; }
  RunDirectory& directory() { return directory_; }

  /// Creates and locks the directory, after moving a run in it aside. The cache of the data stays
  /// if the constructor has made it. To be called by rank 0, before anything else is written.
  void claim_directory();

 private:
  void prepare_cache();

  Config config_;
  bool fresh_;
  RunDirectory directory_;
  std::optional<RunLock> lock_;  ///< while the cache is made
  InitialState initial_;
};

}  // namespace tapestry
