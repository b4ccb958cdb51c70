// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/io/file.h"
#include "train/checkpoint/array_store.h"

/// Checkpoint files: a user block of 512 bytes, which shows damage, in front of an HDF5 file
/// of arrays. train/checkpoint/format.md describes them.
namespace tapestry {

/// The format version that this program writes, and the newest that it reads; it also reads all
/// earlier versions.
inline constexpr std::uint32_t checkpoint_format_version = 4;

/// Writes arrays as one checkpoint file. Equal arrays give equal bytes with one version of libhdf5,
/// which determines where they are in the file; write_file_durably() then writes them from where
/// they are in memory.
///
/// throws  OutputError, from write_file_durably() or, before `path` is changed, because HDF5 cannot
///         store the arrays; std::bad_alloc.
void write_checkpoint(const std::filesystem::path& path, const ArrayStore& arrays,
                      FileSystem& files = posix_file_system());

/// Reads a checkpoint of any format version, after the digest has shown that the file is intact.
/// Allocates about the size of the file.
///
/// max_size  of the file in bytes; 0: the memory of this machine
/// throws  DamagedCheckpoint if the content is not an intact checkpoint or a disk read fails;
///         CheckpointError if the file cannot be opened, is larger than `max_size` or needs another
///         version of the program; std::bad_alloc.
ArrayStore read_checkpoint(const std::filesystem::path& path, std::uint64_t max_size = 0,
                           FileSystem& files = posix_file_system());

}  // namespace tapestry
