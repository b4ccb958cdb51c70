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

/// Target of a name: a folder, or the file with this number.
struct Entry {
  bool is_folder = false;
  std::size_t file = 0;
};

/// One change that a disk was asked to make, in the order of the calls.
///
/// A rename is two changes, which a crash may separate: the new name, and the end of the old one.
struct DiskChange {
  enum class Kind { put_name, drop_name, write, flush_file, flush_folder };

  Kind kind = Kind::write;
  std::string path{};            ///< of the name, or of the folder that is flushed
  std::optional<Entry> entry{};  ///< put_name
  std::size_t file = 0;          ///< write, flush_file
  std::uint64_t offset = 0;      ///< write
  Bytes bytes{};                 ///< write; space that is reserved reads as zeros
};

/// The names and the files of a disk at one moment.
struct DiskContent {
  std::map<std::string, Entry> names;
  std::map<std::size_t, Bytes> files;
};

/// The folder that a path is in; "." for a bare name.
std::string folder_of(const std::string& path);

/// A disk in memory that keeps the order of all changes, so that a test can work out what may be
/// left of them when the power fails. Paths are relative; the folder "." is always there.
class SimulatedDisk : public FileSystem {
 public:
  SimulatedDisk() = default;
  explicit SimulatedDisk(DiskContent content) : now_(std::move(content)) {}

  /// Most bytes a call of write takes; the caller has to come again for the rest.
  std::size_t longest_write = 5000;
  /// A disk that lies: it reports that it has flushed, and has not.
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
  int next_descriptor_ = 1000;  ///< no descriptor of the real system: mixing them up fails
  std::size_t next_file_ = 0;
};

/// Carries out one change.
void apply(const DiskChange& change, DiskContent& content);

}  // namespace tapestry::test
