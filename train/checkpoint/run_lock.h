// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

#include "data/io/file.h"

namespace tapestry {

/// Locks a run directory for this process during the lifetime of the object, with an fcntl(2) lock
/// on its file `.lock`. The kernel releases the lock when the process ends. The file is not
/// deleted; its text names the process. Child processes created by fork also hold the lock until
/// they exec or exit.
class RunLock {
 public:
  /// run_directory  must exist.
  /// throws         RunDirectoryInUse, naming the holder, if another process has the lock;
  ///                OutputError if the file cannot be created or locked, or is a symbolic link.
  explicit RunLock(std::filesystem::path run_directory, FileSystem& files = posix_file_system());

  /// Checks that `.lock` is still the file that this object locked. If it was deleted, creates and
  /// locks it again.
  ///
  /// throws  RunDirectoryInUse if another process has replaced or locked `.lock`; OutputError if
  ///         this cannot be determined.
  void require_held();

 private:
  FileDescriptor open_file() const;
  void take();

  std::filesystem::path run_directory_;
  FileSystem& files_;
  FileDescriptor descriptor_;
};

/// Whether a process holds the lock of a run. Does not acquire the lock. False if `.lock` cannot be
/// read.
bool is_locked(const std::filesystem::path& run_directory);

}  // namespace tapestry
