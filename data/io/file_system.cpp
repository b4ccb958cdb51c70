#include "data/io/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

namespace tapestry {

int FileSystem::open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }

ssize_t FileSystem::write(int fd, const void* bytes, std::size_t count) {
  return ::write(fd, bytes, count);
}

ssize_t FileSystem::pread(int fd, void* bytes, std::size_t count, std::uint64_t offset) {
  return ::pread(fd, bytes, count, static_cast<off_t>(offset));
}

int FileSystem::fstat(int fd, struct stat& status) { return ::fstat(fd, &status); }

int FileSystem::fsync(int fd) { return ::fsync(fd); }

int FileSystem::ftruncate(int fd, std::uint64_t size) {
  return ::ftruncate(fd, static_cast<off_t>(size));
}

int FileSystem::fallocate(int fd, std::uint64_t size) {
  return ::fallocate(fd, 0, 0, static_cast<off_t>(size));
}

int FileSystem::flock(int fd, int operation) { return ::flock(fd, operation); }

int FileSystem::close(int fd) { return ::close(fd); }

int FileSystem::rename(const char* from, const char* to) { return ::rename(from, to); }

int FileSystem::unlink(const char* path) { return ::unlink(path); }

int FileSystem::mkdir(const char* path, mode_t mode) { return ::mkdir(path, mode); }

int FileSystem::list(const char* folder, std::vector<std::string>& names) {
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> stream(::opendir(folder), close);
  if (stream == nullptr) return -1;
  // Only errno distinguishes the end of the folder from an error.
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  return errno == 0 ? 0 : -1;
}

int FileSystem::free_bytes(const char* path, std::uint64_t& bytes) {
  struct statvfs status {};
  if (::statvfs(path, &status) != 0) return -1;
  bytes = static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
  return 0;
}

std::optional<std::uint64_t> FileSystem::free_inodes(const char* path) {
  struct statvfs status {};
  if (::statvfs(path, &status) != 0 || status.f_files == 0) return std::nullopt;
  return status.f_favail;
}

FileSystem& posix_file_system() {
  static FileSystem files;
  return files;
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : files_(other.files_), fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(files_, other.files_);
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (is_open()) close();
}

int FileDescriptor::close() { return files_->close(std::exchange(fd_, -1)); }

}  // namespace tapestry
