// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "data/io/memory.h"
#include "data/io/near_name.h"
#include "data/io/utf8.h"

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // XXH3 with the processor's widest instructions
#endif

namespace tapestry {
namespace {

constexpr FileKind binary_kind{.expected = "a file",
                               .special_hint = "copy it to a file first: it is read more than once",
                               .too_large_hint = "train on a part of it"};

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

std::uint64_t memory_of_machine() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

OpenFile::OpenFile(const std::filesystem::path& path, const FileKind& kind, FileSystem& files)
    : kind_(kind),
      path_(path),
      name_(escaped(path.native())),
      files_(&files),
      // Without O_NONBLOCK, opening a pipe blocks until a writer opens it.
      descriptor_(files, retry_interrupted([&] {
                    return files.open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY |
                                                        (kind.follows_links ? 0 : O_NOFOLLOW));
                  })) {
  if (!descriptor_.is_open() && errno == ENXIO) reject_special_file();  // a socket
  if (!descriptor_.is_open() && errno == ELOOP && !kind.follows_links) {
    throw UnopenedFile(name_, "found a symbolic link, expected a regular file", "delete the link");
  }
  if (!descriptor_.is_open()) reject_unreadable<UnopenedFile>();
  const struct stat opened = status();
  require_regular(opened);
  size_ = static_cast<std::uint64_t>(opened.st_size);
  modified_ = opened.st_mtim;
  require_allowed_size();
}

struct stat OpenFile::status() const {
  struct stat status {};
  if (files_->fstat(descriptor(), status) != 0) reject_unreadable<UnopenedFile>();
  return status;
}

void OpenFile::require_regular(const struct stat& status) const {
  if (S_ISDIR(status.st_mode)) {
    throw UnopenedFile(name_, fmt::format("found a folder, expected {}", kind_.expected),
                       "name a file in this folder");
  }
  if (!S_ISREG(status.st_mode)) reject_special_file();
}

void OpenFile::require_allowed_size() const {
  const std::uint64_t max_bytes = kind_.max_bytes == 0 ? memory_of_machine() : kind_.max_bytes;
  if (size_ <= max_bytes) return;
  throw FileError(name_,
                  fmt::format("found {} bytes, expected at most {}{}", size_, max_bytes,
                              kind_.max_bytes == 0 ? ", the memory of this machine" : ""),
                  kind_.too_large_hint);
}

std::size_t OpenFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  std::size_t count = 0;
  while (count < bytes.size()) {
    const ssize_t got = retry_interrupted([&] {
      return files_->pread(descriptor(), bytes.data() + count, bytes.size() - count,
                           offset + count);
    });
    if (got < 0) reject_unreadable<FileError>();
    if (got == 0) break;
    count += static_cast<std::size_t>(got);
  }
  return count;
}

void OpenFile::read_all_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  const std::size_t count = read_at(offset, bytes);
  if (count == bytes.size()) return;
  throw FileError(name_,
                  fmt::format("the file ends at byte {}, expected {} more bytes", offset + count,
                              bytes.size() - count),
                  "do not change the file while it is read");
}

void OpenFile::require_unchanged(std::uint64_t bytes_read) const {
  const struct stat now = status();
  if (size_ == bytes_read && static_cast<std::uint64_t>(now.st_size) == size_ &&
      same_time(now.st_mtim, modified_)) {
    return;
  }
  throw FileError(name_, "changed while it was read",
                  "wait until the file is complete, then try again");
}

template <class Error>
void OpenFile::reject_unreadable() const {
  const int code = errno;
  const std::string reason =
      fmt::format("cannot be read: {}", std::generic_category().message(code));
  if (code == EMFILE || code == ENFILE) {
    throw FileError(name_, reason, "raise the limit on open files (ulimit -n)");
  }
  if (code == ENOMEM) throw FileError(name_, reason, kind_.unreadable_hint);
  const auto meant = code == ENOENT ? closest_path(path_) : std::nullopt;
  throw Error(name_, reason + name_odd_character(path_.native()),
              meant ? fmt::format("did you mean {}?", escaped(*meant)) : kind_.unreadable_hint);
}

void OpenFile::reject_special_file() const {
  throw UnopenedFile(name_,
                     fmt::format("found a pipe, socket or device, expected {}", kind_.expected),
                     kind_.special_hint);
}

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

void Xxh3::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void Xxh3::add(const void* bytes, std::size_t count) {
  if (count > 0) XXH3_64bits_update(state_.get(), bytes, count);
}

std::uint64_t Xxh3::value() const { return XXH3_64bits_digest(state_.get()); }

BinaryFile read_binary_file(const std::filesystem::path& path) {
  const OpenFile file(path, binary_kind);
  require_memory(fmt::format("{}: found {} bytes", file.name(), file.size()), file.size(),
                 binary_kind.too_large_hint);
  BinaryFile result{.bytes = std::vector<std::byte>(file.size()), .digest = 0};
  file.require_unchanged(file.read_at(0, result.bytes));
  Xxh3 hash;
  hash.add(result.bytes.data(), result.bytes.size());
  result.digest = hash.value();
  return result;
}

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

int FileSystem::lock(int fd) {
  struct flock whole_file {};
  whole_file.l_type = F_WRLCK;
  return ::fcntl(fd, F_OFD_SETLK, &whole_file);
}

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
