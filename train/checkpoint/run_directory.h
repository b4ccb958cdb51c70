// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/io/file.h"
#include "train/checkpoint/array_store.h"

namespace tapestry {

/// Which checkpoints of a run are kept.
struct Retention {
  std::size_t keep_last = 2;           ///< number of newest checkpoints to keep, >= 1
  std::vector<std::uint64_t> steps{};  ///< also kept, regardless of age
  /// In descending order of preference. The first `keep_best` of these steps that have a checkpoint
  /// are also kept.
  std::vector<std::uint64_t> best_first{};
  std::size_t keep_best = 0;
};

/// The newest usable checkpoint, and the newer ones that were skipped.
struct NewestCheckpoint {
  struct Rejected {
    std::filesystem::path path;
    std::string reason;
  };

  std::uint64_t step = 0;
  std::filesystem::path path;
  ArrayStore arrays;
  std::vector<Rejected> rejected;  ///< newest first
};

class RunLock;

/// The checkpoints of one run: RUN/checkpoints/step-00001234.h5, with at least 8 digits. The newest
/// checkpoint is determined by name. A process must hold a RunLock to write.
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path path, FileSystem& files = posix_file_system());

  const std::filesystem::path& path() const { return path_; }
  /// The file system used for all writes to the run.
  FileSystem& files() const { return files_; }
  std::filesystem::path checkpoint_path(std::uint64_t step) const;

  /// Creates the run directory and its folder of checkpoints. throws OutputError.
  void create();

  /// Where the average of the last checkpoints of a finished run is (train.average_last).
  std::filesystem::path average_path() const { return path_ / "average.h5"; }

  /// Where files are kept that can be recreated.
  std::filesystem::path cache_folder() const { return path_ / "cache"; }

  /// Creates cache_folder(), unless it exists, and returns it. throws OutputError.
  std::filesystem::path create_cache_folder();

  /// Takes the lock of the run for this object and its copies from now on.
  /// throws as RunLock.
  void lock();

  /// Checks that the run is still locked, if lock() was called. Call it before every save.
  /// throws as RunLock::require_held().
  void require_lock() const;

  /// Steps that have a checkpoint file, intact or not, in ascending order. Empty if the folder does
  /// not exist. throws CheckpointError if the folder cannot be listed.
  std::vector<std::uint64_t> steps() const;

  /// Throws UnusableCheckpoint to skip the checkpoint of a step.
  using Requirement = std::function<void(std::uint64_t step, const ArrayStore& arrays)>;

  /// Reads the newest usable checkpoint; nullopt if the run has no checkpoints. Skips checkpoints
  /// that are damaged, cannot be opened, are not regular files or are rejected by `require`.
  ///
  /// throws  CheckpointError if all checkpoints are skipped, or if the newest remaining one needs
  ///         another program or machine (such as a newer format version).
  std::optional<NewestCheckpoint> read_newest(const Requirement& require =
                                                  [](std::uint64_t, const ArrayStore&) {}) const;

  /// Writes a checkpoint and, once it is durable, deletes the ones that `retention` does not keep.
  /// Checkpoints of later steps are neither counted nor deleted, since they belong to an abandoned
  /// continuation of the run or are damaged. A folder in the place of the checkpoint is renamed to
  /// NAME.folder.
  ///
  /// returns  why old checkpoints could not be deleted, if so: the new one is written nevertheless.
  /// throws   OutputError if the checkpoint was not written; std::invalid_argument if keep_last is
  ///          0.
  std::vector<std::string> save(std::uint64_t step, const ArrayStore& arrays,
                                const Retention& retention);

  /// Checks whether a checkpoint of this size could be saved now, and `other_files` new files be
  /// created next to it. throws OutputError, with the inodes needed and free if these are too few.
  void probe(std::uint64_t bytes, std::uint64_t other_files) const;

  /// Result of deleting temporary files left by crashes.
  struct StrayTemporaries {
    std::vector<std::filesystem::path> removed;
    std::vector<std::string> problems;  ///< why others could not be deleted
  };

  /// Deletes temporary files left by crashes in the run directory and its folders of checkpoints
  /// and of the cache. throws CheckpointError if a folder cannot be listed.
  StrayTemporaries remove_stray_temporaries();

 private:
  std::vector<std::string> file_names(const std::filesystem::path& folder) const;
  std::vector<std::string> prune(std::uint64_t newest, const Retention& retention);

  std::filesystem::path path_;
  std::filesystem::path checkpoints_;
  FileSystem& files_;
  std::shared_ptr<RunLock> lock_;
};

/// The run that a folder is the directory of, or whose `checkpoints` it is.
RunDirectory find_run(const std::filesystem::path& folder);

/// Locks a run directory for this process during the lifetime of the object, with a lock of
/// fcntl(2) on its file `.lock`. The kernel releases the lock whenever the process ends. The file
/// is not deleted; its text names the holder. Child processes created by fork also hold the lock
/// until they exec or exit.
class RunLock {
 public:
  /// run_directory  must exist.
  /// throws         RunDirectoryInUse, naming the holder, if another process has the lock;
  ///                OutputError if the file cannot be created or locked, or is a symbolic link.
  explicit RunLock(std::filesystem::path run_directory, FileSystem& files = posix_file_system());

  /// Checks that `.lock` is still the file that this object locked. If it was deleted, it is
  /// created and locked again.
  ///
  /// throws  RunDirectoryInUse if `.lock` is another file, which another process has created, or
  ///         is locked by another process; OutputError if this cannot be determined.
  void require_held();

 private:
  FileDescriptor open_file() const;
  void take();

  std::filesystem::path run_directory_;
  FileSystem& files_;
  FileDescriptor descriptor_;
};

/// Whether a process holds the lock of a run. Takes no lock itself. False if `.lock` cannot be
/// read.
bool is_locked(const std::filesystem::path& run_directory);

/// The largest text file of a run directory that is read as a whole, in bytes.
inline constexpr std::uint64_t max_run_file_bytes = std::uint64_t{1} << 30;

/// The content of a text file of a run directory, such as metrics.csv; nullopt if it is missing.
/// Never blocks, not even for a named pipe.
///
/// throws  FileError if it is not a regular file, larger than `max_run_file_bytes`, or unreadable
std::optional<std::string> read_run_file(const std::filesystem::path& path);

/// At most the last `max_bytes` bytes of such a file of any size, such as a log; nullopt if it
/// is missing.
///
/// throws  FileError if it is not a regular file, or unreadable
std::optional<std::string> read_end_of_run_file(const std::filesystem::path& path,
                                                std::size_t max_bytes);

}  // namespace tapestry
