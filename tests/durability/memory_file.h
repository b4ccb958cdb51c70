#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "data/io/file_system.h"

namespace tapestry::test {

/// A disk with one file, which can be read by any name and not be written.
class MemoryFile : public FileSystem {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  int open(const char* /*path*/, int /*flags*/, mode_t /*mode*/) override { return descriptor; }
  ssize_t pread(int /*fd*/, void* to, std::size_t count, std::uint64_t offset) override {
    if (offset >= bytes_.size()) return 0;
    const std::size_t given = std::min<std::size_t>(count, bytes_.size() - offset);
    std::memcpy(to, bytes_.data() + offset, given);
    return static_cast<ssize_t>(given);
  }
  int fstat(int /*fd*/, struct stat& status) override {
    status = {};
    status.st_mode = S_IFREG;
    status.st_size = static_cast<off_t>(bytes_.size());
    return 0;
  }
  int close(int fd) override { return fd == descriptor ? 0 : -1; }

 private:
  static constexpr int descriptor = 1000;  ///< none of the real system
  std::span<const std::byte> bytes_;
};

}  // namespace tapestry::test
