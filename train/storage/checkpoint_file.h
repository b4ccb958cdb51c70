#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "data/io/durable_file.h"
#include "data/io/file_system.h"
#include "train/storage/snapshot.h"

namespace tapestry {

/// The format version that this program writes, and the newest that it reads; it also reads all
/// earlier versions. Version 2 has the layout of version 1 and stores more training state; version
/// 3 adds the id of the run, and attributes for other HDF5 programs.
inline constexpr std::uint32_t checkpoint_format_version = 3;

/// Bytes of the envelope, which is at the start of a checkpoint.
inline constexpr std::size_t envelope_size = 512;

/// The header of a checkpoint file, which determines whether the rest is intact.
/// train/checkpoint/format.md describes its bytes.
struct Envelope {
  std::uint32_t format_version = checkpoint_format_version;
  std::uint64_t file_size = 0;
  std::uint64_t table_size = 0;   ///< size of the table of contents, which follows the envelope
  std::uint64_t hdf5_offset = 0;  ///< offset of the HDF5 part, a power of two
  std::uint64_t payload_digest_low = 0;   ///< XXH3-128 of the payload, bits 0 to 63
  std::uint64_t payload_digest_high = 0;  ///< bits 64 to 127
};

/// Writes the envelope of a file whose payload is complete.
///
/// head  the beginning of the file: `envelope_size` bytes for the envelope, then payload
/// rest  the rest of the payload
void seal(std::span<std::byte> head, Pieces rest, std::uint64_t table_size,
          std::uint64_t hdf5_offset);

/// Reads and checks an envelope.
///
/// head       the first bytes of the file, at most envelope_size
/// file_size  bytes in the whole file
/// path       named in errors
/// throws     DamagedCheckpoint if the file is not a checkpoint or its envelope or length is
///            damaged; CheckpointError if another version of the program is needed to read it.
Envelope open_envelope(std::span<const std::byte> head, std::uint64_t file_size,
                       const std::filesystem::path& path);

/// Whether the digest of the payload matches the envelope.
bool payload_is_whole(const Envelope& envelope, std::span<const std::byte> payload);

/// Writes a snapshot as one checkpoint file in the layout of train/checkpoint/format.md. Equal
/// snapshots give equal bytes. Does not use libhdf5. Arrays are written by write_file_durably()
/// from where they are; the rest takes about 350 bytes of memory for each array, besides its path.
///
/// throws  OutputError, from write_file_durably() or, before `path` is changed, because HDF5 cannot
///         store the snapshot, see hdf5::encode(); std::bad_alloc.
void write_checkpoint(const std::filesystem::path& path, const Snapshot& snapshot,
                      FileSystem& files = posix_file_system());

/// Memory of this machine in bytes; larger files are not read.
std::uint64_t default_max_checkpoint_size();

/// Reads a checkpoint by its table of contents, after verifying that the file is intact. Does not
/// use HDF5. Allocates about twice the size of the file.
///
/// throws  DamagedCheckpoint if the content is not an intact checkpoint or a disk read fails;
///         CheckpointError if the file cannot be opened, is larger than `max_size` or needs another
///         version of the program; std::bad_alloc.
Snapshot read_checkpoint(const std::filesystem::path& path,
                         std::uint64_t max_size = default_max_checkpoint_size(),
                         FileSystem& files = posix_file_system());

/// Verifies that programs that read a checkpoint through HDF5 see the same arrays as
/// read_checkpoint(). A malicious file can crash libhdf5 and with it the process.
///
/// throws  as read_checkpoint(), and DamagedCheckpoint if HDF5 and the table of contents differ.
void verify_checkpoint(const std::filesystem::path& path,
                       std::uint64_t max_size = default_max_checkpoint_size(),
                       FileSystem& files = posix_file_system());

}  // namespace tapestry
