#pragma once

#include <filesystem>

#include "train/platform/file_system.h"

namespace tapestry {

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
