#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/io/file_system.h"
#include "train/storage/snapshot.h"

namespace tapestry {

/// Which checkpoints of a run are kept.
struct Retention {
  std::size_t keep_last = 2;                      ///< number of newest checkpoints to keep, >= 1
  std::optional<std::uint64_t> best_step{};       ///< also kept, regardless of age
  std::optional<std::uint64_t> scheduled_step{};  ///< also kept
};

/// The newest intact checkpoint, and the newer ones that were skipped.
struct NewestCheckpoint {
  struct Rejected {
    std::filesystem::path path;
    std::string reason;
  };

  std::uint64_t step = 0;
  std::filesystem::path path;
  Snapshot snapshot;
  std::vector<Rejected> rejected;  ///< newest first
};

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

  /// Steps that have a checkpoint file, intact or not, in ascending order. Empty if the folder does
  /// not exist. throws CheckpointError if the folder cannot be listed.
  std::vector<std::uint64_t> steps() const;

  /// Reads the newest intact checkpoint; nullopt if the run has no checkpoints.
  ///
  /// throws  CheckpointError if all checkpoints are damaged, or if the newest undamaged one cannot
  ///         be used for another reason (such as a newer format version).
  std::optional<NewestCheckpoint> read_newest() const;

  /// Writes a checkpoint and, once it is durable, deletes those that `retention` does not keep.
  /// Checkpoints of later steps are neither counted nor deleted, since they belong to an abandoned
  /// continuation of the run or are damaged.
  ///
  /// throws  OutputError; std::invalid_argument if keep_last is 0.
  void save(std::uint64_t step, const Snapshot& snapshot, const Retention& retention);

  /// Checks whether a checkpoint of this size could be saved now. throws OutputError.
  void probe(std::uint64_t bytes) const;

  /// Deletes temporary files left by crashes, in the run directory and its folder of checkpoints,
  /// and returns their paths.
  /// throws  OutputError.
  std::vector<std::filesystem::path> remove_stray_temporaries();

 private:
  std::vector<std::string> file_names(const std::filesystem::path& folder) const;
  void prune(std::uint64_t newest, const Retention& retention);

  std::filesystem::path path_;
  std::filesystem::path checkpoints_;
  FileSystem& files_;
};

/// Locks a run directory for this process during the lifetime of the object, with flock(2) on its
/// file `.lock`. The kernel releases the lock whenever the process ends. The file is not deleted;
/// its text names the holder. Child processes created by fork also hold the lock until they exec or
/// exit.
class RunLock {
 public:
  /// run_directory  must exist.
  /// throws         RunDirectoryInUse, naming the holder, if another process has the lock;
  ///                OutputError if the file cannot be created or locked.
  explicit RunLock(const std::filesystem::path& run_directory,
                   FileSystem& files = posix_file_system());

 private:
  FileDescriptor descriptor_;
};

}  // namespace tapestry
