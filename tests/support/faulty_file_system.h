// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "data/io/file.h"

namespace tapestry::test {

/// The real file system, with a record of its calls and faults on demand.
class FaultyFileSystem : public FileSystem {
 public:
  std::vector<std::string> calls;  ///< names, in order

  /// The call with this number, from 0, fails with `error`. A failing close() still closes the
  /// file.
  std::size_t failing_call = std::numeric_limits<std::size_t>::max();
  int error = EIO;

  /// Every call with this name fails with `error`.
  std::string failing_name;

  /// Makes the next `times` calls of this name fail with error `with`.
  void fail_times(const std::string& name, std::size_t times, int with) {
    failing_soon_ = name;
    failures_left_ = times;
    error = with;
  }

  bool interrupt_every_second_call = false;  ///< if interruptible, it fails with EINTR
  std::size_t max_transfer_bytes = std::numeric_limits<std::size_t>::max();  ///< per call
  bool lose_last_byte = false;  ///< writes 0 in place of each write's last byte
  ssize_t excess_claimed = 0;   ///< added to the byte count that a write reports
  std::uint64_t free_space = 4096;

  int open(const char* path, int flags, mode_t mode) override {
    return fails("open") ? -1 : FileSystem::open(path, flags, mode);
  }
  ssize_t write(int fd, const void* bytes, std::size_t count) override {
    if (fails("write")) return -1;
    const auto* first = static_cast<const char*>(bytes);
    std::string data(first, std::min(count, max_transfer_bytes));
    if (lose_last_byte && !data.empty()) data.back() = '\0';
    return FileSystem::write(fd, data.data(), data.size()) + excess_claimed;
  }
  ssize_t pread(int fd, void* bytes, std::size_t count, std::uint64_t offset) override {
    if (fails("pread")) return -1;
    return FileSystem::pread(fd, bytes, std::min(count, max_transfer_bytes), offset);
  }
  int fstat(int fd, struct stat& status) override {
    return fails("fstat") ? -1 : FileSystem::fstat(fd, status);
  }
  int fsync(int fd) override { return fails("fsync") ? -1 : FileSystem::fsync(fd); }
  int ftruncate(int fd, std::uint64_t size) override {
    return fails("ftruncate") ? -1 : FileSystem::ftruncate(fd, size);
  }
  int fallocate(int fd, std::uint64_t size) override {
    return fails("fallocate") ? -1 : FileSystem::fallocate(fd, size);
  }
  int lock(int fd) override { return fails("lock") ? -1 : FileSystem::lock(fd); }
  int close(int fd) override {
    const bool failing = fails("close");
    const int code = errno;
    FileSystem::close(fd);
    errno = code;
    return failing ? -1 : 0;
  }
  int rename(const char* from, const char* to) override {
    return fails("rename") ? -1 : FileSystem::rename(from, to);
  }
  int unlink(const char* path) override { return fails("unlink") ? -1 : FileSystem::unlink(path); }
  int mkdir(const char* path, mode_t mode) override {
    return fails("mkdir") ? -1 : FileSystem::mkdir(path, mode);
  }
  /// Not recorded in `calls`.
  int list(const char* folder, std::vector<std::string>& names) override {
    errno = error;
    return failing_name == "list" ? -1 : FileSystem::list(folder, names);
  }
  int free_bytes(const char* /*path*/, std::uint64_t& bytes) override {
    bytes = free_space;
    return 0;
  }

 private:
  bool fails(const std::string& name) {
    const std::size_t number = calls.size();
    calls.push_back(name);
    if (interrupt_every_second_call && waits(name) && (interrupted_ = !interrupted_)) {
      errno = EINTR;
      return true;
    }
    errno = error;
    if (name == failing_soon_ && failures_left_ > 0) {
      --failures_left_;
      return true;
    }
    return number == failing_call || name == failing_name;
  }

  /// Whether a signal can interrupt the call.
  static bool waits(const std::string& name) {
    return name != "fstat" && name != "rename" && name != "unlink" && name != "mkdir";
  }

  bool interrupted_ = false;
  std::string failing_soon_;
  std::size_t failures_left_ = 0;
};

}  // namespace tapestry::test
