#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tapestry {

/// The system calls with which the program reads and writes its run files, each as POSIX has it:
/// a result of -1 means failure with the reason in errno. Tests override them to make them fail.
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
  /// Appends the names of all that is in a folder, in any order, without "." and "..".
  virtual int list(const char* folder, std::vector<std::string>& names);
  /// Bytes an ordinary user may still write on the disk that holds `path`.
  virtual int free_bytes(const char* path, std::uint64_t& bytes);
};

/// The real calls.
FileSystem& posix_file_system();

/// Owns an open file and closes it once. `fd` may be -1: nothing is owned.
class FileDescriptor {
 public:
  FileDescriptor(FileSystem& files, int fd) : files_(&files), fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor();

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }

  /// Closes the file and returns what close(2) said. The descriptor is gone even if that failed.
  int close();

 private:
  FileSystem* files_;
  int fd_;
};

/// Repeats a call for as long as a signal interrupts it.
template <typename Call>
auto retry_interrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

}  // namespace tapestry
