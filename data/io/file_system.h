#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tapestry {

/// The system calls that read and write the files of a run, with POSIX semantics: a result of -1
/// means failure, with the reason in errno. Tests override them to simulate failures.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual int open(const char* path, int flags, mode_t mode = 0);
  virtual ssize_t write(int fd, const void* bytes, std::size_t count);
  virtual ssize_t pread(int fd, void* bytes, std::size_t count, std::uint64_t offset);
  virtual int fstat(int fd, struct stat& status);
  virtual int fsync(int fd);
  virtual int ftruncate(int fd, std::uint64_t size);
  /// Reserves blocks for the first `size` bytes, size >= 1, as fallocate(2) does.
  virtual int fallocate(int fd, std::uint64_t size);
  virtual int flock(int fd, int operation);
  virtual int close(int fd);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
  virtual int mkdir(const char* path, mode_t mode);
  /// Appends the names of all entries of a folder, in any order, without "." and "..".
  virtual int list(const char* folder, std::vector<std::string>& names);
  /// The bytes that an unprivileged user can still write on the file system of `path`.
  virtual int free_bytes(const char* path, std::uint64_t& bytes);
  /// The number of files that an unprivileged user can still create on the file system of `path`;
  /// nullopt if the file system has no such limit or the number is unknown.
  virtual std::optional<std::uint64_t> free_inodes(const char* path);
};

/// The actual system calls.
FileSystem& posix_file_system();

/// Owns a file descriptor and closes it once. `fd` may be -1 for none.
class FileDescriptor {
 public:
  FileDescriptor(FileSystem& files, int fd) : files_(&files), fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }

  /// Closes the file and returns the result of close(2). The descriptor is released even on
  /// failure.
  int close();

 private:
  FileSystem* files_;
  int fd_;
};

/// Repeats a call while it fails with EINTR.
template <typename Call>
auto retry_interrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

}  // namespace tapestry
