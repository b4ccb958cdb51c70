// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/io/file.h"

namespace tapestry::test {

using Bytes = std::vector<std::byte>;

/// The target of a directory entry: a folder, or the file with this number.
struct Entry {
  bool is_folder = false;
  std::size_t file = 0;
};

/// A change to a disk.
///
/// A rename consists of two changes, since a crash may separate them: adding the new name, and
/// dropping the old name.
struct DiskChange {
  enum class Kind { put_name, drop_name, write, flush_file, flush_folder };

  Kind kind = Kind::write;
  std::string path{};            ///< put_name, drop_name, flush_folder
  std::optional<Entry> entry{};  ///< put_name
  std::size_t file = 0;          ///< write, flush_file
  std::uint64_t offset = 0;      ///< write
  Bytes bytes{};                 ///< write; reserved space is a write of zeros
};

/// The names and the files of a disk at one moment.
struct DiskContent {
  std::map<std::string, Entry> names;
  std::map<std::size_t, Bytes> files;
};

/// The folder of a path; "." for a bare name.
std::string folder_of(const std::string& path);

/// A disk in memory that records all changes in order, so that a test can compute the possible
/// states after a power failure. Paths are relative; the folder "." always exists.
class SimulatedDisk : public FileSystem {
 public:
  SimulatedDisk() = default;
  explicit SimulatedDisk(DiskContent content) : now_(std::move(content)) {}

  /// Maximum number of bytes that a call of write() writes.
  std::size_t max_write_bytes = 5000;
  /// Whether fsync() reports success without flushing.
  bool ignores_file_flushes = false;
  bool ignores_folder_flushes = false;

  const std::vector<DiskChange>& changes() const { return changes_; }
  const DiskContent& content() const { return now_; }

  int open(const char* path, int flags, mode_t mode) override;
  ssize_t write(int fd, const void* bytes, std::size_t count) override;
  ssize_t pread(int fd, void* bytes, std::size_t count, std::uint64_t offset) override;
  int fstat(int fd, struct stat& status) override;
  int fsync(int fd) override;
  int ftruncate(int fd, std::uint64_t size) override;
  int fallocate(int fd, std::uint64_t size) override;
  int lock(int fd) override;
  int close(int fd) override;
  int rename(const char* from, const char* to) override;
  int unlink(const char* path) override;
  int mkdir(const char* path, mode_t mode) override;
  int list(const char* folder, std::vector<std::string>& names) override;
  int free_bytes(const char* path, std::uint64_t& bytes) override;

 private:
  struct OpenFile {
    std::string path;
    Entry entry;
    std::uint64_t position = 0;
  };

  void make(DiskChange change);
  const Entry* find(const std::string& path) const;
  int create(const std::string& path, int flags);

  DiskContent now_;
  std::vector<DiskChange> changes_;
  std::map<int, OpenFile> open_;
  int next_descriptor_ = 1000;  ///< not a descriptor of the real system, so that mix-ups fail
  std::size_t next_file_ = 0;
};

/// Applies a change.
void apply(const DiskChange& change, DiskContent& content);

}  // namespace tapestry::test
