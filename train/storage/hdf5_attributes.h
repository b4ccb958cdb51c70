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

/// Whether an array has an attribute, whose name is the path of the array: a number for an array
/// without axes, a string for a one-dimensional uint8 array that is UTF-8 without NUL and at most
/// largest_text_attribute long.
bool has_attribute(ElementType type, const ArrayShape& shape, std::span<const std::byte> bytes);

/// The bytes of the attribute's value: those of the array, or one NUL for an empty string, since
/// HDF5 has no string type of length 0.
std::vector<std::byte> attribute_value(std::span<const std::byte> array);

/// The number of attributes of the root group.
std::size_t count_attributes(const File& file);

/// Checks that the root group of a file has exactly the attributes of the arrays, with the values
/// of the arrays.
///
/// entries  the arrays of the file
/// bytes    the whole file
/// throws   Error
void require_attributes(const File& file, const std::vector<ArrayEntry>& entries,
                        std::span<const std::byte> bytes);

}  // namespace tapestry::hdf5
