#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/storage/snapshot.h"

namespace tapestry {

/// Where one array stands in a checkpoint file.
struct ArrayEntry {
  std::string path;
  ElementType type = ElementType::uint8;
  StoredShape shape{};
  std::uint64_t offset = 0;  ///< from the start of the file; 0 for an array without elements
  std::uint64_t size = 0;    ///< bytes
  std::uint64_t digest = 0;  ///< XXH3-64 of the bytes

  bool operator==(const ArrayEntry&) const = default;
};

/// XXH3-64, the digest of one array.
std::uint64_t array_digest(std::span<const std::byte> bytes);

/// Bytes of the table of a file that holds the snapshot; a multiple of 8.
std::size_t table_size(const Snapshot& snapshot);

/// The table of contents of a checkpoint, laid out as train/checkpoint/format.md says. With it a
/// checkpoint is read without HDF5, which does not survive every file made to harm it.
std::vector<std::byte> encode_table(const std::vector<ArrayEntry>& entries);

/// Whether the entries of a file are the arrays of the snapshot, in its order and byte for byte.
bool holds(std::span<const std::byte> file, const std::vector<ArrayEntry>& entries,
           const Snapshot& snapshot);

/// The bytes of a file from `begin` up to, but not including, `end`.
struct DataRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Reads a table which need not be trusted.
///
/// table      exactly its bytes
/// data       where in the file the arrays must lie, apart from each other
/// path       the file, named in errors
/// throws     DamagedCheckpoint
///
/// Paths and shapes are passed on as they are: Snapshot::put refuses bad ones.
std::vector<ArrayEntry> decode_table(std::span<const std::byte> table, DataRange data,
                                     const std::filesystem::path& path);

}  // namespace tapestry
