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

/// Selects which checkpoints of a run to keep: the union of the following sets.
struct Retention {
  std::size_t keep_last = 2;           ///< number of newest checkpoints to keep, >= 1
  std::vector<std::uint64_t> steps{};  ///< steps to keep regardless of age
  /// Steps from best to worst. Keeps the first `keep_best` of these steps that have a checkpoint.
  std::vector<std::uint64_t> best_first{};
  std::size_t keep_best = 0;
};

/// The newest usable checkpoint, and the newer checkpoints that were skipped.
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

class RunLock;  // see train/checkpoint/run_lock.h

/// The checkpoints of a run: RUN/checkpoints/step-00001234.h5, with at least 8 digits. The newest
/// checkpoint has the highest step in its name. A process must hold a RunLock to write to the run.
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path path, FileSystem& files = posix_file_system());

  const std::filesystem::path& path() const { return path_; }
  /// The file system used for all writes to the run.
  FileSystem& files() const { return files_; }
  std::filesystem::path checkpoint_path(std::uint64_t step) const;

  /// Creates the run directory and its folder of checkpoints. Throws OutputError.
  void create();

  /// The path of the average of a finished run's last checkpoints (train.average_last).
  std::filesystem::path average_path() const { return path_ / "average.h5"; }

  /// The folder for cached files, which can be recreated.
  std::filesystem::path cache_folder() const { return path_ / "cache"; }

  /// Creates cache_folder() if it does not exist, and returns it. Throws OutputError.
  std::filesystem::path create_cache_folder();

  /// Locks the run for this object and its copies. Throws like the constructor of RunLock.
  void lock();

  /// If lock() was called, checks that the run is still locked. Call it before every save. Throws
  /// like RunLock::require_held().
  void require_lock() const;

  /// The steps that have a checkpoint file, which may be damaged, in ascending order. Empty if the
  /// folder does not exist. Throws CheckpointError if the folder cannot be listed.
  std::vector<std::uint64_t> steps() const;

  /// A check of a step's checkpoint. Throws UnusableCheckpoint to skip the checkpoint.
  using Requirement = std::function<void(std::uint64_t step, const ArrayStore& arrays)>;

  /// Reads the newest usable checkpoint; nullopt if the run has no checkpoints. Skips checkpoints
  /// that are damaged, cannot be opened, are not regular files or are rejected by `require`.
  ///
  /// throws  CheckpointError if all checkpoints are skipped, or if the newest intact checkpoint
  ///         needs a different program or machine (for example, has a newer format version).
  std::optional<NewestCheckpoint> read_newest(const Requirement& require =
                                                  [](std::uint64_t, const ArrayStore&) {}) const;

  /// Writes a checkpoint durably, then calls delete_old(). Renames a folder at the path of the
  /// checkpoint to NAME.folder.
  ///
  /// returns  the result of delete_old()
  /// throws   OutputError if the checkpoint was not written; std::invalid_argument if keep_last is
  ///          0.
  std::vector<std::string> save(std::uint64_t step, const ArrayStore& arrays,
                                const Retention& retention);

  /// Deletes checkpoints that `retention` does not keep. Neither counts nor deletes checkpoints of
  /// steps later than `newest`, which are damaged or belong to an abandoned continuation of the
  /// run. Returns reasons why checkpoints could not be deleted.
  std::vector<std::string> delete_old(std::uint64_t newest, const Retention& retention);

  /// Checks whether the disk has space for a checkpoint of this size, and inodes for the checkpoint
  /// and `other_files` new files. Throws OutputError.
  void probe(std::uint64_t bytes, std::uint64_t other_files) const;

  /// Result of deleting temporary files left by crashes.
  struct StrayTemporaries {
    std::vector<std::filesystem::path> removed;
    std::vector<std::string> problems;  ///< why some files could not be deleted
  };

  /// Deletes temporary files left by crashes in the run directory, its folder of checkpoints and
  /// its cache folder. Throws CheckpointError if a folder cannot be listed.
  StrayTemporaries remove_stray_temporaries();

 private:
  std::vector<std::string> file_names(const std::filesystem::path& folder) const;
  std::vector<std::string> prune(std::uint64_t newest, const Retention& retention);

  std::filesystem::path path_;
  std::filesystem::path checkpoints_;
  FileSystem& files_;
  std::shared_ptr<RunLock> lock_;
};

/// The run that a folder belongs to. The folder is either a run directory or its folder
/// `checkpoints`.
RunDirectory find_run(const std::filesystem::path& folder);

/// Opens a file of a run directory. Never blocks, and follows no symbolic link: through a link in
/// another user's run directory, the program could append to, or show, files of this user.
///
/// flags    of open(2)
/// returns  the file. If it cannot be opened or is not a regular file: a closed descriptor, with a
///          code for run_file_problem() in errno
FileDescriptor open_run_file(const std::filesystem::path& path, int flags,
                             FileSystem& files = posix_file_system());

/// Why open_run_file() failed: "found a symbolic link, expected a regular file".
std::string run_file_problem(int code, const std::filesystem::path& path,
                             FileSystem& files = posix_file_system());

/// Whether the path names a file that a run owns: in the folder `checkpoints` or `cache` of a run
/// directory, or a file that training writes into the run directory.
bool is_file_of_run(const std::filesystem::path& path);

/// Maximum size of a text file of a run directory that is read as a whole, in bytes.
inline constexpr std::uint64_t max_run_file_bytes = std::uint64_t{1} << 30;

/// The content of a text file of a run directory, such as metrics.csv; nullopt if it is missing.
/// Never blocks, not even for a named pipe.
///
/// throws  FileError if it is not a regular file, larger than `max_run_file_bytes`, unreadable, or
/// a
///         symbolic link
std::optional<std::string> read_run_file(const std::filesystem::path& path);

/// At most the last `max_bytes` bytes of a text file of any size, such as a log; nullopt if it is
/// missing. Never blocks, not even for a named pipe.
///
/// throws  FileError if it is not a regular file, unreadable, or a symbolic link
std::optional<std::string> read_end_of_run_file(const std::filesystem::path& path,
                                                std::size_t max_bytes);

}  // namespace tapestry
