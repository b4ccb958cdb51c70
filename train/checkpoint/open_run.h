#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint/array_store.h"
#include "train/checkpoint/run_directory.h"

/// A run as its files tell it: its id, the checkpoints with this id, and its state.
namespace tapestry {

/// The first line of the `config.yaml` of a run, a comment with its id.
std::string run_id_line(std::string_view run_id);

/// The id in the first line of a config file; nullopt if the file is missing or has none.
std::optional<std::string> read_run_id(const std::filesystem::path& config_file);

/// The id in the `config.yaml` of a run directory; nullopt if the file is missing or has none.
std::optional<std::string> recorded_run_id(const RunDirectory& directory);

/// The newest usable checkpoint that belongs to the run, see RunDirectory::read_newest(). Skips
/// checkpoints whose step is not the step in their name, and checkpoints of another run than the
/// one that `config.yaml` names. Checkpoints before format version 3 have no id and are not
/// skipped.
std::optional<NewestCheckpoint> read_newest_of_run(const RunDirectory& directory);

/// The checkpoint of a step. throws CheckpointError, also if it does not belong to the run.
ArrayStore read_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step);

/// For a checkpoint that another machine has written: over a network file system it may
/// come late, so that an unusable checkpoint is read again for up to `timeout`.
ArrayStore await_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step,
                                   std::chrono::milliseconds timeout);

/// Where the parameters of a model come from, for messages.
struct ModelOrigin {
  std::string place;   ///< a checkpoint and its step, or a config
  std::string choice;  ///< why this checkpoint was chosen, if the run has a newer one; else empty

  /// "runs/copy/checkpoints/step-00000900.h5, step 900 (the best of the run, ...)"
  std::string in_words() const;
};

/// A checkpoint that the user named, or the one chosen from a run directory that the user named.
struct OpenedCheckpoint {
  std::filesystem::path path;
  ArrayStore arrays;
  std::string choice;  ///< as in ModelOrigin
};

/// Opens a checkpoint. `run` is a checkpoint file, or a run directory or its folder of checkpoints,
/// from which the best checkpoint is read, or the newest if no best one is recorded, or the average
/// at the end of the run, if that is better (train.average_last). Unusable
/// checkpoints of a run are skipped with a warning on standard error.
///
/// throws  CheckpointError if it is missing or cannot be used.
OpenedCheckpoint open_run(const std::string& run);

/// State of a run, or how it ended.
enum class RunPhase {
  running,   ///< a process holds its lock
  finished,  ///< it has done its steps, or its patience has ended
  failed,    ///< its log ends with an error
  stopped    ///< it can be resumed
};

/// "running", ...
std::string_view phase_name(RunPhase phase);

/// The state of a run as its files tell it. Nothing is locked or written.
struct RunState {
  std::filesystem::path path;
  RunPhase phase = RunPhase::stopped;
  std::string holder{};          ///< `pid 13722 on vm since ...` of a running run
  std::uint64_t step = 0;        ///< last step in train.log
  std::uint64_t steps = 0;       ///< train.steps; 0 if unknown
  std::string metric{};          ///< train.best_metric
  std::optional<double> best{};  ///< its best value, of the saved metrics
  std::optional<std::uint64_t> best_step{};
  std::string problem{};  ///< the error of a failed run, or why the files could not be read
  std::filesystem::file_time_type changed{};  ///< of train.log
};

/// Whether a folder is the directory of a run: it has a config.yaml and a folder `checkpoints`.
bool is_run_directory(const std::filesystem::path& folder);

/// The state of the run in a directory. Files that cannot be read leave values out and set
/// `problem`.
RunState read_run_state(const std::filesystem::path& run);

/// The lock file of a run, as the file system and the file itself identify it.
struct LockFile {
  unsigned major = 0, minor = 0;  ///< device number
  std::uint64_t inode = 0;
  std::uint64_t process = 0;  ///< id of the last process that held the lock; 0: unknown
};

/// Whether the text of /proc/locks has a lock of the file: by inode and device, or by inode and
/// process, since a file system such as btrfs has other device numbers there than stat() returns.
bool lists_lock(std::string_view locks, const LockFile& file);

/// Whether a process of this machine holds the lock of a run. Always false where /proc/locks cannot
/// be read.
bool is_locked(const std::filesystem::path& run);

/// The run directories in `folder`, itself included, down to `depth` levels below it, sorted by
/// path. Does not look into runs, hidden folders or symbolic links; skips folders that cannot be
/// read.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder,
                                             std::size_t depth = 2);

}  // namespace tapestry
