#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/platform/file_system.h"
#include "train/storage/snapshot.h"

namespace tapestry {

/// Which checkpoints of a run are kept.
struct Retention {
  std::size_t keep_last = 2;                      ///< the newest so many, >= 1
  std::optional<std::uint64_t> best_step{};       ///< and this one, however old
  std::optional<std::uint64_t> scheduled_step{};  ///< and this one
};

/// A checkpoint that was read, and the newer ones that had to be passed over.
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

/// The checkpoints of one run: RUN/checkpoints/step-00001234.h5, at least 8 digits. No file says
/// which is the newest; the names do. Whoever writes holds a RunLock.
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path path, FileSystem& files = posix_file_system());

  const std::filesystem::path& path() const { return path_; }
  /// What writes to the run go through.
  FileSystem& files() const { return files_; }
  std::filesystem::path checkpoint_path(std::uint64_t step) const;

  /// Creates the run directory and its folder of checkpoints. throws OutputError.
  void create();

  /// Steps that have a checkpoint file, whole or not, in ascending order. Empty without a folder.
  /// throws CheckpointError if the folder cannot be listed.
  std::vector<std::uint64_t> steps() const;

  /// Reads the newest checkpoint that is whole; nothing if the run has none at all.
  ///
  /// throws  CheckpointError if there are checkpoints and none is whole, or if the newest whole one
  ///         cannot be used for another reason than damage (such as a newer version).
  std::optional<NewestCheckpoint> read_newest() const;

  /// Writes a checkpoint and, once it is durable, deletes those that `retention` does not keep.
  /// Only steps up to this one are counted and deleted: files of later steps belong to a course of
  /// the run that was abandoned, or are damaged, and are left to the user.
  ///
  /// throws  OutputError; std::invalid_argument if keep_last is 0.
  void save(std::uint64_t step, const Snapshot& snapshot, const Retention& retention);

  /// Finds out whether a checkpoint of this size could be saved now. throws OutputError.
  void probe(std::uint64_t bytes) const;

  /// Deletes temporary files that crashes left behind, here and among the checkpoints, and returns
  /// their paths.
  /// throws OutputError.
  std::vector<std::filesystem::path> remove_stray_temporaries();

 private:
  std::vector<std::string> file_names(const std::filesystem::path& folder) const;
  void prune(std::uint64_t newest, const Retention& retention);

  std::filesystem::path path_;
  std::filesystem::path checkpoints_;
  FileSystem& files_;
};

/// Keeps a run directory to one process for as long as the object lives, by flock(2) on its file
/// `.lock`. The kernel releases the lock when the process ends, however it ends. The file stays;
/// its text names the holder. Child processes made by fork hold the lock too until they exec or
/// exit.
class RunLock {
 public:
  /// run_directory  must exist.
  /// throws         RunDirectoryInUse, naming the holder, if another process has the lock;
  ///                OutputError if the file cannot be made or locked.
  explicit RunLock(const std::filesystem::path& run_directory,
                   FileSystem& files = posix_file_system());

 private:
  FileDescriptor descriptor_;
};

}  // namespace tapestry
