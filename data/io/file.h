// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/io/error.h"

struct XXH3_state_s;  // defined in xxhash.h

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
  /// Locks the whole file for the open file description of `fd`, without waiting. Fails with EAGAIN
  /// if another open file description has the lock (F_OFD_SETLK of fcntl(2)).
  virtual int lock(int fd);
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

/// Owns a file descriptor and closes it once. `fd` is -1 if there is no file.
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

/// The hint for a data file that cannot be opened or read.
inline constexpr const char* unreadable_hint =
    "check the path and its permissions; relative paths in a config are resolved against the "
    "folder of the config, on the command line against the working folder";

/// Texts for error messages about a kind of file, and its maximum size.
struct FileKind {
  const char* expected;        ///< expected kind of file, such as "a text file"
  const char* special_hint;    ///< hint for a pipe, socket or device
  const char* too_large_hint;  ///< hint for a file of more than max_bytes
  const char* unreadable_hint = tapestry::unreadable_hint;
  std::uint64_t max_bytes = 0;  ///< in bytes; 0 for the memory size of this machine
  bool follows_links = true;    ///< if false, a symbolic link is an error
};

/// Thrown if a file cannot be read. what() is "NAME: REASON".
class FileError : public DataError {
 public:
  FileError(const std::string& name, std::string reason, std::string hint)
      : DataError(name + ": " + reason, std::move(hint)), reason_(std::move(reason)) {}

  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

/// Thrown if the path cannot be opened or does not name a regular file. If the process has too many
/// open files or too little memory, FileError is thrown instead: the path may be correct.
class UnopenedFile : public FileError {
 public:
  using FileError::FileError;
};

/// Returns the result of read(). If a file cannot be opened, the error has the given hint; if
/// `hint` is empty, the hint names the config key.
template <class Read>
auto with_key_in_hint(const std::string& key, const Read& read, const std::string& hint = {}) {
  try {
    return read();
  } catch (const UnopenedFile& error) {
    throw DataError(error.what(), hint.empty() ? error.hint() + " (the key is " + key + ")" : hint);
  }
}

/// A regular file, open for reading. All files that the program reads are opened with this class.
/// Type and size come from the open file, because the path may later refer to a different file.
/// Opening never blocks, not even for a named pipe.
class OpenFile {
 public:
  /// throws  UnopenedFile if the file is missing, unreadable, a folder, pipe, socket or device;
  ///         FileError if it is larger than `kind` allows or the process can open no more files.
  OpenFile(const std::filesystem::path& path, const FileKind& kind,
           FileSystem& files = posix_file_system());

  int descriptor() const { return descriptor_.get(); }
  /// The path, escaped for messages.
  const std::string& name() const { return name_; }
  /// Size in bytes when the file was opened.
  std::uint64_t size() const { return size_; }

  /// Reads from `offset` until `bytes` is full or the file ends; returns the number of bytes read.
  ///
  /// throws  FileError
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) const;

  /// Fills `bytes` from `offset`.
  ///
  /// throws  FileError, including if the file is too short.
  void read_all_at(std::uint64_t offset, std::span<std::byte> bytes) const;

  /// throws  FileError if the file has changed since it was opened, or if its size is not
  ///         `bytes_read`.
  void require_unchanged(std::uint64_t bytes_read) const;

 private:
  struct stat status() const;
  void require_regular(const struct stat& status) const;
  void require_allowed_size() const;
  template <class Error>
  [[noreturn]] void reject_unreadable() const;
  [[noreturn]] void reject_special_file() const;

  FileKind kind_;
  std::filesystem::path path_;
  std::string name_;
  FileSystem* files_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;
  timespec modified_{};
};

/// The physical memory of this machine in bytes.
std::uint64_t memory_of_machine();

/// XXH3 (64 bits) of bytes.
std::uint64_t xxh3(std::span<const std::byte> bytes);

/// Incremental XXH3 (64 bits). The value does not depend on how the bytes are divided between calls
/// of add().
class Xxh3 {
 public:
  Xxh3();

  void add(const void* bytes, std::size_t count);
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };

  std::unique_ptr<XXH3_state_s, Free> state_;
};

/// The content of a file and its digest.
struct BinaryFile {
  std::vector<std::byte> bytes;
  std::uint64_t digest;  ///< XXH3 (64 bits)
};

/// Reads a whole data file in one pass.
///
/// throws  FileError like OpenFile, and if the file changes during reading.
BinaryFile read_binary_file(const std::filesystem::path& path);

}  // namespace tapestry
