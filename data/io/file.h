#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/io/error.h"

struct XXH3_state_s;  // of xxhash.h

namespace tapestry {

/// The texts of error messages about a kind of file.
struct FileKind {
  const char* expected;        ///< "a text file"
  const char* pipe_hint;       ///< hint for a pipe, socket or device
  const char* too_large_hint;  ///< hint for a file larger than the memory
};

/// The hint for a file that cannot be opened or read.
inline constexpr const char* unreadable_hint =
    "check the path and its permissions; a relative path starts at the folder of the config file, "
    "on the command line at the working folder";

/// The path cannot be opened or does not name a regular file.
class UnopenedFile : public DataError {
 public:
  using DataError::DataError;
};

/// A data file, open for reading. Type and size are read from the open file, not from its path,
/// which may later name another file.
class OpenFile {
 public:
  /// throws  UnopenedFile, naming the file, if it is missing, unreadable, a folder, pipe, socket or
  ///         device (opening never blocks); DataError if it is larger than the memory.
  OpenFile(const std::filesystem::path& path, const FileKind& kind);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// The path, escaped for messages.
  const std::string& name() const { return name_; }
  /// Size in bytes when the file was opened.
  std::uint64_t size() const { return static_cast<std::uint64_t>(opened_.st_size); }

  /// throws  DataError if the file has changed since it was opened, or if its size is not
  ///         `bytes_read`.
  void require_unchanged(std::uint64_t bytes_read) const;

 private:
  struct stat status() const;
  void require_regular() const;
  void require_fits_memory() const;
  [[noreturn]] void refuse_unreadable() const;
  [[noreturn]] void refuse_special_file() const;

  const FileKind& kind_;
  std::string name_;
  int descriptor_;
  struct stat opened_ {};
};

/// Reads the next bytes from a descriptor, at most bytes.size(); returns 0 at the end of the file.
///
/// throws  DataError with `hint` if reading fails; `name` is the file name in the message.
std::size_t read_some(int descriptor, std::span<std::byte> bytes, const std::string& name,
                      const std::string& hint);

/// XXH3 (64 bits) of bytes that are added in pieces. The value does not depend on the division into
/// pieces.
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

/// Reads a whole file in one pass.
///
/// throws  DataError as OpenFile; also if the file changes while it is read.
BinaryFile read_binary_file(const std::filesystem::path& path);

}  // namespace tapestry
