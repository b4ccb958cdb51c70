#pragma once

#include <cstdint>
#include <filesystem>

#include "train/platform/file_system.h"
#include "train/storage/snapshot.h"

namespace tapestry {

/// Writes a snapshot as one checkpoint file, laid out as train/checkpoint/format.md says. Equal snapshots
/// give equal bytes. The file is built and compared with the snapshot in memory, which takes about
/// twice the snapshot's size, and is then written as write_file_durably does.
///
/// throws  OutputError, as write_file_durably does or, before `path` is touched, because HDF5 could
///         not build the file; std::bad_alloc.
void write_checkpoint(const std::filesystem::path& path, const Snapshot& snapshot,
                      FileSystem& files = posix_file_system());

/// Bytes of memory in this machine: a larger file is not read.
std::uint64_t default_max_checkpoint_size();

/// Reads a checkpoint by its table of contents, after proving that the file is whole. HDF5 takes no
/// part in it, and memory is taken only for bytes the file has: about twice its size.
///
/// throws  DamagedCheckpoint if the content is not that of a whole checkpoint, or the disk could
/// not
///         read it; CheckpointError if the file cannot be opened, is larger than `max_size` or
///         needs another version of the program; std::bad_alloc.
Snapshot read_checkpoint(const std::filesystem::path& path,
                         std::uint64_t max_size = default_max_checkpoint_size(),
                         FileSystem& files = posix_file_system());

/// Proves that other programs, which read a checkpoint through HDF5, see the same arrays as
/// read_checkpoint. A file made with harm in mind can crash libhdf5 and with it the process.
///
/// throws  as read_checkpoint, and DamagedCheckpoint where HDF5 and the table of contents differ.
void verify_checkpoint(const std::filesystem::path& path,
                       std::uint64_t max_size = default_max_checkpoint_size(),
                       FileSystem& files = posix_file_system());

}  // namespace tapestry
