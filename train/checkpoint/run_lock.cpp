// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "data/io/durable_file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/run_directory.h"

namespace tapestry {
namespace {

std::string holder_text() {
  return fmt::format("pid {} on {} since {}\n", ::getpid(), host_name(),
                     format_time(std::time(nullptr)));
}

/// The first line of the lock file, which describes the process that holds the lock.
std::string read_holder(FileSystem& files, int fd) {
  std::array<char, 512> text{};
  const ssize_t count = files.pread(fd, text.data(), text.size(), 0);
  const std::string read(text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  const std::string line = read.substr(0, read.find('\n'));
  return line.empty() ? "another process" : line;
}

[[noreturn]] void lock_failure(const std::filesystem::path& path, std::string_view action,
                               FileSystem& files) {
  const int code = errno;
  const auto folder = path.parent_path();
  const bool is_limit = code == ENOSPC || code == EDQUOT || code == EMFILE || code == ENFILE;
  throw OutputError(
      fmt::format("{}: could not {}: {}", escaped(path.string()), action,
                  output_error_text(code, folder, files)),
      is_limit ? output_error_hint(code, folder, files)
               : "put the run directory on a disk where this user can write and lock files");
}

}  // namespace

RunLock::RunLock(std::filesystem::path run_directory, FileSystem& files)
    : run_directory_(std::move(run_directory)), files_(files), descriptor_(open_file()) {
  take();
}

FileDescriptor RunLock::open_file() const {
  const auto path = run_directory_ / ".lock";
  FileDescriptor file = open_run_file(path, O_RDWR | O_CREAT, files_);
  if (!file.is_open() && errno == ELOOP) {
    throw OutputError(
        fmt::format("{}: {}", escaped(path.string()), run_file_problem(ELOOP, path, files_)),
        "delete the link");
  }
  if (!file.is_open()) lock_failure(path, "open the lock file", files_);
  return file;
}

/// Locks the open file and writes a description of this process into it.
void RunLock::take() {
  const auto path = run_directory_ / ".lock";
  const int result = retry_interrupted([&] { return files_.lock(descriptor_.get()); });
  if (result != 0 && errno == EAGAIN) {
    throw RunDirectoryInUse(
        fmt::format("{}: the run directory is in use by {}", escaped(run_directory_.string()),
                    read_holder(files_, descriptor_.get())),
        "wait for that process to end, or use another run directory");
  }
  if (result != 0) lock_failure(path, "lock the run directory", files_);
  const std::string text = holder_text();
  if (files_.ftruncate(descriptor_.get(), 0) != 0 ||
      files_.write(descriptor_.get(), text.data(), text.size()) !=
          static_cast<ssize_t>(text.size())) {
    lock_failure(path, "write the lock file", files_);
  }
}

void RunLock::require_held() {
  const auto path = run_directory_ / ".lock";
  const FileDescriptor current(files_, retry_interrupted([&] {
                                 return files_.open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
                               }));
  if (!current.is_open() && errno == ENOENT) {
    descriptor_ = open_file();
    return take();
  }
  struct stat held {};
  struct stat found {};
  if (!current.is_open() || files_.fstat(descriptor_.get(), held) != 0 ||
      files_.fstat(current.get(), found) != 0) {
    lock_failure(path, "check the lock file", files_);
  }
  if (held.st_dev == found.st_dev && held.st_ino == found.st_ino) return;
  throw RunDirectoryInUse(
      fmt::format(
          "{}: another process has replaced the lock file: this process stops without saving",
          escaped(run_directory_.string())),
      "do not delete .lock while a run is training; resume the run when no other process uses it");
}

bool is_locked(const std::filesystem::path& run_directory) {
  const FileDescriptor file = open_run_file(run_directory / ".lock", O_RDONLY);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  return file.is_open() && ::fcntl(file.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace tapestry
