#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/error.h"

namespace tapestry {

/// What messages about a file say of it.
struct OpenFileKind {
  const char* expected;    ///< "a text file"
  const char* to_a_file;   ///< advice where it is a pipe
  const char* part_of_it;  ///< advice where it is larger than the memory
};

/// Advice where a file cannot be opened or read.
inline constexpr const char* unreadable_hint =
    "check the path and its permissions; a relative path starts at the folder of the config file, "
    "on the command line at the working folder";

/// A file that cannot be opened, or is none.
class UnopenedFile : public DataError {
 public:
  using DataError::DataError;
};

/// A file of a corpus, open for reading. What it is gets asked of the open file, never of its name,
/// which may lead elsewhere a moment later.
class OpenFile {
 public:
  /// throws  UnopenedFile, naming the file, if it is missing or unreadable, or a folder, pipe,
  ///         socket or device, none of which is waited for; DataError if it is larger than the
  ///         memory.
  OpenFile(const std::filesystem::path& path, const OpenFileKind& kind);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// As messages have it.
  const std::string& name() const { return name_; }
  /// Bytes when it was opened.
  std::uint64_t size() const { return static_cast<std::uint64_t>(opened_.st_size); }

  /// throws  DataError if the file has changed since it was opened, or has other than so many
  /// bytes.
  void require_unchanged(std::uint64_t bytes_read) const;

 private:
  struct stat status() const;
  void require_regular() const;
  void require_fits_memory() const;
  [[noreturn]] void refuse_unreadable() const;
  [[noreturn]] void refuse_special_file() const;

  const OpenFileKind& kind_;
  std::string name_;
  int descriptor_;
  struct stat opened_ {};
};

}  // namespace tapestry
