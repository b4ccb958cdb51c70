#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/storage/snapshot.h"

namespace tapestry {

/// The location of one array in a checkpoint file.
struct ArrayEntry {
  std::string path;
  ElementType type = ElementType::uint8;
  ArrayShape shape{};
  std::uint64_t offset = 0;  ///< from the start of the file; 0 for an array without elements
  std::uint64_t size = 0;    ///< bytes
  std::uint64_t digest = 0;  ///< XXH3-64 of the bytes

  bool operator==(const ArrayEntry&) const = default;
};

/// XXH3-64, the digest of one array.
std::uint64_t array_digest(std::span<const std::byte> bytes);

/// Bytes of the table of contents for a snapshot; a multiple of 8.
std::size_t table_size(const Snapshot& snapshot);

/// Encodes the table of contents of a checkpoint in the layout of train/checkpoint/format.md. With
/// it a checkpoint is read without HDF5, which can crash on malicious files.
std::vector<std::byte> encode_table(const std::vector<ArrayEntry>& entries);

/// Bytes `begin` to `end`, exclusive, of a file.
struct DataRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Decodes an untrusted table of contents.
///
/// table      exactly the bytes of the table
/// data       the range of the file that contains the arrays, which must not overlap
/// path       the file, named in errors
/// throws     DamagedCheckpoint
///
/// Array paths and shapes are not checked here: Snapshot::put refuses invalid ones.
std::vector<ArrayEntry> decode_table(std::span<const std::byte> table, DataRange data,
                                     const std::filesystem::path& path);

}  // namespace tapestry
