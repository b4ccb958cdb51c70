#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

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

}  // namespace tapestry
