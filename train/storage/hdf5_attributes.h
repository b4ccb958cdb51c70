#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/storage/checkpoint_table.h"
#include "train/storage/hdf5_handle.h"
#include "train/storage/snapshot.h"

/// The attributes of the root group of a checkpoint: copies of its texts and single numbers, which
/// HDF5 programs show in readable form. Tapestry never uses their values.
namespace tapestry::hdf5 {

/// The largest text that has an attribute, in bytes. HDF5 limits an attribute to 64 KiB.
inline constexpr std::size_t largest_text_attribute = 32 * 1024;

/// Bytes of the attributes for a snapshot, without their headers.
std::uint64_t attribute_bytes(const Snapshot& snapshot);

/// Creates the attributes, each with the path of its array as its name: strings for one-dimensional
/// uint8 arrays that are UTF-8 without NUL and at most largest_text_attribute long, numbers for
/// arrays without axes. throws Error.
void write_attributes(const File& file, const Snapshot& snapshot);

/// The number of attributes of the root group.
std::size_t count_attributes(const File& file);

/// Checks that the root group of a file has exactly the attributes that write_attributes() creates
/// for the arrays, with the values of the arrays.
///
/// entries  the arrays of the file
/// bytes    the whole file
/// throws   Error
void require_attributes(const File& file, const std::vector<ArrayEntry>& entries,
                        std::span<const std::byte> bytes);

}  // namespace tapestry::hdf5
