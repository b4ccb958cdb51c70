// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/io/file.h"
#include "train/checkpoint/array_store.h"

/// Reads and writes checkpoint files: a user block of 512 bytes with digests that detect damage,
/// followed by an HDF5 file of arrays. train/checkpoint/format.md describes the format.
namespace tapestry {

/// The format version that this program writes. The program reads this version and all earlier
/// versions.
inline constexpr std::uint32_t checkpoint_format_version = 4;

/// Writes arrays to a checkpoint file with write_file_durably(), without copying them. Equal arrays
/// give equal files for the same version of libhdf5.
///
/// throws  OutputError like write_file_durably(), or before `path` is changed if HDF5 cannot store
///         the arrays; std::bad_alloc.
void write_checkpoint(const std::filesystem::path& path, const ArrayStore& arrays,
                      FileSystem& files = posix_file_system());

/// Reads a checkpoint of any format version. Compares the digest before libhdf5 reads the file.
/// Allocates about the size of the file.
///
/// max_size  maximum size of the file in bytes; 0 means the size of this machine's memory
/// throws    DamagedCheckpoint if the content is not an intact checkpoint or a disk read fails;
///           CheckpointError if the file cannot be opened, is larger than `max_size` or needs a
///           different version of the program; std::bad_alloc.
ArrayStore read_checkpoint(const std::filesystem::path& path, std::uint64_t max_size = 0,
                           FileSystem& files = posix_file_system());

}  // namespace tapestry
