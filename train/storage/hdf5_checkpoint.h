#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train/storage/checkpoint_table.h"
#include "train/storage/snapshot.h"

namespace tapestry::hdf5 {

/// Whether the root group of a file has the attributes of hdf5_attributes.h.
enum class RootAttributes {
  none,     ///< as before format version 3
  required  ///< exactly those of its arrays
};

/// Lists the datasets of an HDF5 file, in byte order of their paths.
///
/// Refuses everything that encode() does not write: links other than hard links, objects
/// reached twice, names or depths that a Snapshot does not allow, attributes other than xxh3 and
/// `attributes`; datasets that are not contiguous, have filters or external files, another element
/// type, more than 8 axes, or a stored size that does not match their shape. Does not read the
/// arrays or open other files. libhdf5 1.10 still crashes on about one in ten thousand randomly
/// altered files, so call this only in a process that may crash.
///
/// file         the whole file, including the user block
/// attributes   of the root group
/// max_objects  maximum number of groups and arrays; the default is more than any checkpoint has.
///              Limits the time for malicious files.
/// throws       Error with the path, what was found and what was expected; std::bad_alloc
std::vector<ArrayEntry> list_arrays(std::span<const std::byte> file, RootAttributes attributes,
                                    std::size_t max_objects = 1'000'000);

}  // namespace tapestry::hdf5
