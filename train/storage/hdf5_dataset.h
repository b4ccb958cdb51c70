#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "train/storage/checkpoint_table.h"
#include "train/storage/hdf5_handle.h"

/// Looking at files in memory of which nothing is believed. Each of these may also crash libhdf5
/// 1.10, see list_arrays().
namespace tapestry::hdf5 {

/// throws  Error: "`path`: found ..., expected ..."
[[noreturn]] void refuse(std::string_view path, std::string_view found, std::string_view expected);

/// Opens the bytes of a file, which are not copied and have to stay, for reading.
File open_image(std::span<const std::byte> image);

/// The element type that a type in a file is, if there is one.
std::optional<ElementType> element_type_in(const Datatype& type);

/// Type, shape and place of an array, without a digest. Nothing of it is read.
///
/// throws  Error unless it is contiguous in this file, without filters, of an element type, with at
///         most max_stored_rank axes and as many bytes as its shape needs.
ArrayEntry describe_dataset(const Object& dataset, const std::string& path);

}  // namespace tapestry::hdf5
