#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tapestry {

/// The lines of a text file, and what tells it from other files.
struct TextFile {
  std::vector<std::string> lines;  ///< without their line ends, never empty
  std::uint64_t bytes;             ///< of the file
  std::uint64_t digest;            ///< XXH3 (64 bits) of the bytes that the lines were made of
};

/// Reads a UTF-8 text file as LineReader does, once.
///
/// throws  DataError, naming the file and where there is one the line, as LineReader does; if the
///         file is missing, unreadable, empty or larger than the memory; if it is a folder, pipe,
///         socket or device, none of which is waited for; if it changes while it is read.
TextFile read_text_file(const std::filesystem::path& path);

}  // namespace tapestry
