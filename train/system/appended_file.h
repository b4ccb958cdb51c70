#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/io/file_system.h"

namespace tapestry {

/// A file that grows at its end while a run is in progress, such as events.jsonl. After the first
/// failure it stays as it is: every later call does nothing, and problem() has the reason.
class AppendedFile {
 public:
  /// Opens the file `path` for reading and appending, or creates it. A symbolic link is not
  /// followed.
  explicit AppendedFile(std::filesystem::path path);

  /// The size in bytes; nullopt after a failure.
  std::optional<std::uint64_t> size();

  /// Reads up to bytes.size() bytes from `offset`; returns how many, 0 at the end of the file and
  /// after a failure.
  std::size_t read(std::uint64_t offset, std::span<char> bytes);

  /// Appends all bytes, or none if the file system is full.
  void append(std::string_view bytes);

  /// Removes what follows the first `size` bytes.
  void truncate(std::uint64_t size);

  /// Why the file cannot be written: "PATH: could not be written: REASON".
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  void fail(const std::string& what);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::optional<std::string> problem_;
};

}  // namespace tapestry
