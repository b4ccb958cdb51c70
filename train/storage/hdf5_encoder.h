#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "train/storage/checkpoint_table.h"
#include "train/storage/snapshot.h"

namespace tapestry::hdf5 {

/// Name of the attribute of each dataset with the digest of its bytes, a uint64.
inline constexpr const char* digest_attribute = "xxh3";

/// The HDF5 part of a checkpoint file without the elements of its arrays. In the file, the
/// superblock comes first, then the arrays in the order of the entries, then the objects; zeros are
/// between them where an array does not end at a multiple of 8 bytes.
struct EncodedFile {
  std::vector<std::byte> superblock;  ///< a multiple of 8 bytes
  std::vector<ArrayEntry> entries;    ///< in byte order of the paths, with digests
  std::uint64_t objects_offset = 0;   ///< from the start of the file, a multiple of 8
  std::vector<std::byte> objects;     ///< headers of datasets and groups, names, attributes
};

/// Encodes the arrays of a snapshot as groups, datasets and attributes of an HDF5 file, without
/// libhdf5, which takes 20 us for each. train/checkpoint/format.md describes the result. Equal
/// snapshots give equal bytes. The structures are the oldest of the "HDF5 File Format
/// Specification Version 3.0": superblock version 0, groups with version 1 B-trees and local
/// heaps, object headers of version 1, contiguous datasets.
///
/// user_block_size  bytes of the file before the superblock: 512 or a larger power of two
/// throws           Error if HDF5 cannot store the snapshot: an axis of 2^64 - 1, or more than
///                  65,000 texts and scalars, which are attributes of the root group
EncodedFile encode(const Snapshot& snapshot, std::uint64_t user_block_size);

}  // namespace tapestry::hdf5
