#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train/storage/checkpoint_table.h"
#include "train/storage/snapshot.h"

namespace tapestry::hdf5 {

/// Name of the attribute of each dataset that holds the digest of its bytes, as uint64.
inline constexpr const char* digest_attribute = "xxh3";

/// The bytes of an HDF5 file that holds the snapshot, behind a user block of zero bytes. Equal
/// snapshots give equal bytes. Built in memory: HDF5 reports a full disk too late.
///
/// user_block_size  512 or a larger power of two
/// throws           Error; std::bad_alloc
std::vector<std::byte> write_image(const Snapshot& snapshot, std::size_t user_block_size);

/// What HDF5 finds in a file, in byte order of the paths.
///
/// Refuses whatever write_image does not write: links that are not hard, an object reached twice,
/// names or depths a Snapshot cannot have, attributes but xxh3; datasets that are not contiguous,
/// that have filters or external files, another element type, more than 8 axes, or other bytes
/// stored than their shape needs. No array is read. Nothing outside the memory is opened. Even so
/// libhdf5 1.10 crashes on about one in ten thousand files altered at random, so this is for files
/// that were just written and for a process that may die.
///
/// file         whole, user block included
/// max_objects  groups and arrays; by default more than any checkpoint has. Ends the walk of a file
///              that is made to have no end.
/// throws       Error with the path, what was found and what was expected; std::bad_alloc
std::vector<ArrayEntry> list_arrays(std::span<const std::byte> file,
                                    std::size_t max_objects = 1'000'000);

}  // namespace tapestry::hdf5
