#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "train/platform/file_system.h"
#include "train/storage/snapshot.h"

namespace tapestry {

/// Version of the format that this program writes, and the newest it reads; it reads all before it.
/// Version 2 holds more of a run's state in the same layout.
inline constexpr std::uint32_t checkpoint_format_version = 2;

/// Bytes of the envelope, the first of a checkpoint.
inline constexpr std::size_t envelope_size = 512;

/// What stands in front of every checkpoint and tells whether the rest is whole. The bytes are
/// described in train/checkpoint/format.md.
struct Envelope {
  std::uint32_t format_version = checkpoint_format_version;
  std::uint64_t file_size = 0;
  std::uint64_t table_size = 0;           ///< the table of contents follows the envelope
  std::uint64_t hdf5_offset = 0;          ///< where the HDF5 part begins, a power of two
  std::uint64_t payload_digest_low = 0;   ///< XXH3-128 of the payload, bits 0 to 63
  std::uint64_t payload_digest_high = 0;  ///< bits 64 to 127
};

/// Fills the first `envelope_size` bytes of a file whose other bytes, the payload, are complete.
void seal(std::span<std::byte> file, std::uint64_t table_size, std::uint64_t hdf5_offset);

/// Reads and checks an envelope.
///
/// head       the first bytes of the file, as many as there are up to envelope_size
/// file_size  bytes in the whole file
/// path       named in errors
/// throws     DamagedCheckpoint if this is no checkpoint or its envelope or length is damaged;
///            CheckpointError if another version of the program must read it.
Envelope open_envelope(std::span<const std::byte> head, std::uint64_t file_size,
                       const std::filesystem::path& path);

/// Whether the payload is the one that was sealed.
bool payload_is_whole(const Envelope& envelope, std::span<const std::byte> payload);

/// Writes a snapshot as one checkpoint file, laid out as train/checkpoint/format.md says. Equal
/// snapshots give equal bytes. The file is built and compared with the snapshot in memory, which
/// takes about twice the snapshot's size, and is then written as write_file_durably does.
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
