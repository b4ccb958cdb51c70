#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace tapestry {

/// The bytes of a file, and what tells it from other files.
struct BinaryFile {
  std::vector<std::byte> bytes;
  std::uint64_t digest;  ///< XXH3 (64 bits)
};

/// Reads a whole file, once.
///
/// throws  DataError, naming the file, as OpenFile does; if it changes while it is read.
BinaryFile read_binary_file(const std::filesystem::path& path);

}  // namespace tapestry
