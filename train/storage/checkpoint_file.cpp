#include "train/storage/checkpoint_file.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/error.h"
#include "train/platform/program_name.h"
#include "train/storage/checkpoint_table.h"
#include "train/storage/hdf5_checkpoint.h"
#include "train/storage/hdf5_encoder.h"
#include "train/storage/hdf5_handle.h"

namespace tapestry {
namespace {

static_assert(std::endian::native == std::endian::little, "the envelope is little-endian");

constexpr std::string_view magic = "TAPESTRY";
constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";
constexpr const char* damage_hint = "copy the file again, or use an older checkpoint";

// Byte offsets of the fields. The bytes between the digest and the checksum are zero.
constexpr std::size_t version_at = 8;
constexpr std::size_t envelope_size_at = 12;
constexpr std::size_t file_size_at = 16;
constexpr std::size_t table_size_at = 24;
constexpr std::size_t hdf5_offset_at = 32;
constexpr std::size_t digest_low_at = 40;
constexpr std::size_t digest_high_at = 48;
constexpr std::size_t checksum_at = envelope_size - 8;

template <typename T>
void store(std::span<std::byte> bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::uint64_t checksum(std::span<const std::byte> envelope) {
  return XXH3_64bits(envelope.data(), checksum_at);
}

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

std::string describe_start(std::span<const std::byte> head) {
  if (head.empty()) return "an empty file";
  if (starts_with(head, hdf5_signature)) return "an HDF5 file without Tapestry's envelope";
  std::string bytes;
  for (const std::byte byte : head.first(std::min(head.size(), magic.size()))) {
    bytes += fmt::format(" {:02x}", static_cast<unsigned>(byte));
  }
  return "a file that begins with the bytes" + bytes;
}

void require_magic(std::span<const std::byte> head, const std::filesystem::path& path) {
  if (starts_with(head, magic)) return;
  const bool is_yaml = path.extension() == ".yaml" || path.extension() == ".yml";
  throw DamagedCheckpoint(
      fmt::format("{}: not a Tapestry checkpoint: found {}, expected '{}'", escaped(path.string()),
                  is_yaml ? "a YAML file" : describe_start(head), magic),
      fmt::format("give a file that `{} train` wrote, such as step-00001000.h5", program_name()));
}

void require_size(std::uint64_t found, std::uint64_t expected, const std::filesystem::path& path) {
  if (found == expected) return;
  throw DamagedCheckpoint(
      fmt::format("{}: the checkpoint is {}: found {} bytes, expected {}", escaped(path.string()),
                  found < expected ? "truncated" : "too long", found, expected),
      damage_hint);
}

void require_layout(const Envelope& envelope, const std::filesystem::path& path) {
  if (envelope.hdf5_offset >= envelope_size && envelope.hdf5_offset <= envelope.file_size &&
      envelope.table_size <= envelope.hdf5_offset - envelope_size) {
    return;
  }
  throw DamagedCheckpoint(
      fmt::format("{}: the envelope is invalid: found a table of {} bytes and HDF5 at {}, "
                  "expected both inside the {} bytes of the file",
                  escaped(path.string()), envelope.table_size, envelope.hdf5_offset,
                  envelope.file_size),
      damage_hint);
}

void require_known_version(std::uint32_t found, const std::filesystem::path& path) {
  if (found >= 1 && found <= checkpoint_format_version) return;
  throw CheckpointError(
      fmt::format("{}: written by {} version of Tapestry: found format {}, expected 1 to {}",
                  escaped(path.string()),
                  found > checkpoint_format_version ? "a newer" : "an unknown", found,
                  checkpoint_format_version),
      "use the version of Tapestry that wrote the checkpoint, or a newer one");
}

// ---- Writing.

/// XXH3-128 of bytes in several places.
class Digester {
 public:
  Digester() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }

  void add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }

  XXH128_hash_t digest() const { return XXH3_128bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

/// Everything in front of the arrays, with room for the envelope.
std::vector<std::byte> make_head(std::span<const std::byte> table,
                                 std::span<const std::byte> superblock, std::size_t hdf5_offset) {
  std::vector<std::byte> head(hdf5_offset + superblock.size());
  std::ranges::copy(table, head.begin() + envelope_size);
  std::ranges::copy(superblock, head.begin() + static_cast<std::ptrdiff_t>(hdf5_offset));
  return head;
}

/// The parts of a file, which refer to `head`, `snapshot` and `hdf5`.
std::vector<std::span<const std::byte>> list_pieces(std::span<const std::byte> head,
                                                    const Snapshot& snapshot,
                                                    const hdf5::EncodedFile& hdf5) {
  static constexpr std::array<std::byte, 8> zeros{};
  std::vector<std::span<const std::byte>> pieces{head};
  pieces.reserve(2 + 2 * snapshot.size());
  std::uint64_t end = head.size();
  const auto add = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    if (offset > end) pieces.push_back(std::span(zeros).first(offset - end));
    pieces.push_back(bytes);
    end = offset + bytes.size();
  };
  auto entry = hdf5.entries.begin();
  for (const auto& [path, array] : snapshot) {
    if (entry->size > 0) add(entry->offset, array.bytes);
    ++entry;
  }
  add(hdf5.objects_offset, hdf5.objects);
  return pieces;
}

// ---- Reading.

/// A file in memory whose payload matches the digest of its envelope.
struct WholeFile {
  std::vector<std::byte> bytes;
  std::vector<ArrayEntry> entries;

  std::span<const std::byte> entry_bytes(const ArrayEntry& entry) const {
    return std::span(bytes).subspan(entry.offset, entry.size);
  }
};

OpenFile open_checkpoint(const std::filesystem::path& path, std::uint64_t max_size,
                         FileSystem& files) try {
  return OpenFile(path,
                  {.expected = "a checkpoint",
                   .special_hint = "name a checkpoint file or a run directory",
                   .too_large_hint = "use a machine with more memory",
                   .unreadable_hint = "check the path and its permissions",
                   .max_bytes = max_size},
                  files);
} catch (const UnopenedFile& error) {
  throw UnusableCheckpoint(error.what(), error.hint());
} catch (const FileError& error) {
  throw CheckpointError(error.what(), error.hint());
}

std::vector<std::string> damaged_arrays(const WholeFile& file) {
  std::vector<std::string> damaged;
  for (const ArrayEntry& entry : file.entries) {
    if (array_digest(file.entry_bytes(entry)) != entry.digest) damaged.push_back(entry.path);
  }
  return damaged;
}

WholeFile with_entries(std::vector<std::byte> bytes, const Envelope& envelope,
                       const std::filesystem::path& path) {
  const auto table = std::span(bytes).subspan(envelope_size, envelope.table_size);
  auto entries = decode_table(table, {envelope.hdf5_offset, envelope.file_size}, path);
  return {std::move(bytes), std::move(entries)};
}

/// Names the part of a file that was altered, as far as its table of contents shows.
std::string locate_damage(std::vector<std::byte> bytes, const Envelope& envelope,
                          const std::filesystem::path& path) try {
  const auto damaged = damaged_arrays(with_entries(std::move(bytes), envelope, path));
  if (damaged.empty()) return "its headers";
  const std::string first = excerpt(damaged.front());
  if (damaged.size() == 1) return first;
  return fmt::format("{} and {} more", first, damaged.size() - 1);
} catch (const DamagedCheckpoint&) {
  return "its table of contents";
}

/// The attributes that a file of this version has.
hdf5::RootAttributes expected_attributes(std::span<const std::byte> file) {
  constexpr std::uint32_t first_version_with_attributes = 3;
  return load<std::uint32_t>(file, version_at) >= first_version_with_attributes
             ? hdf5::RootAttributes::required
             : hdf5::RootAttributes::none;
}

/// Checks the digests in the table of contents: a program that altered arrays may have sealed the
/// file again without updating them.
void require_table_digests(const WholeFile& file, const std::filesystem::path& path) {
  const auto damaged = damaged_arrays(file);
  if (damaged.empty()) return;
  throw DamagedCheckpoint(
      fmt::format("{}: {}: its digest differs from the one in the table of contents",
                  escaped(path.string()), excerpt(damaged.front())),
      "use a checkpoint that this program wrote");
}

/// Checks the envelope before allocating memory for the rest.
WholeFile read_whole(const OpenFile& file, const std::filesystem::path& path) try {
  std::vector<std::byte> bytes(std::min<std::uint64_t>(envelope_size, file.size()));
  file.read_all_at(0, bytes);
  const Envelope envelope = open_envelope(bytes, file.size(), path);
  bytes.resize(file.size());
  const auto payload = std::span(bytes).subspan(envelope_size);
  file.read_all_at(envelope_size, payload);
  if (!payload_is_whole(envelope, payload)) {
    throw DamagedCheckpoint(
        fmt::format("{}: the checkpoint is damaged: found other bytes than were written in {}",
                    escaped(path.string()), locate_damage(std::move(bytes), envelope, path)),
        "copy the file again, or use an older checkpoint");
  }
  WholeFile whole = with_entries(std::move(bytes), envelope, path);
  require_table_digests(whole, path);
  return whole;
} catch (const FileError& error) {
  throw DamagedCheckpoint(error.what(), error.hint());
}

}  // namespace

void seal(std::span<std::byte> head, Pieces rest, std::uint64_t table_size,
          std::uint64_t hdf5_offset) {
  const auto envelope = head.first(envelope_size);
  Digester digester;
  digester.add(head.subspan(envelope_size));
  std::uint64_t file_size = head.size();
  for (const auto piece : rest) {
    digester.add(piece);
    file_size += piece.size();
  }
  const XXH128_hash_t digest = digester.digest();
  std::ranges::fill(envelope, std::byte{0});
  std::memcpy(envelope.data(), magic.data(), magic.size());
  store<std::uint32_t>(envelope, version_at, checkpoint_format_version);
  store<std::uint32_t>(envelope, envelope_size_at, envelope_size);
  store<std::uint64_t>(envelope, file_size_at, file_size);
  store<std::uint64_t>(envelope, table_size_at, table_size);
  store<std::uint64_t>(envelope, hdf5_offset_at, hdf5_offset);
  store<std::uint64_t>(envelope, digest_low_at, digest.low64);
  store<std::uint64_t>(envelope, digest_high_at, digest.high64);
  store<std::uint64_t>(envelope, checksum_at, checksum(envelope));
}

Envelope open_envelope(std::span<const std::byte> head, std::uint64_t file_size,
                       const std::filesystem::path& path) {
  require_magic(head, path);
  if (head.size() < envelope_size) {
    throw DamagedCheckpoint(
        fmt::format("{}: the checkpoint is truncated: found {} bytes, expected more than {}",
                    escaped(path.string()), head.size(), envelope_size),
        damage_hint);
  }
  if (load<std::uint64_t>(head, checksum_at) != checksum(head)) {
    throw DamagedCheckpoint(
        fmt::format("{}: the envelope is damaged: found checksum {:016x}, expected {:016x}",
                    escaped(path.string()), checksum(head), load<std::uint64_t>(head, checksum_at)),
        damage_hint);
  }
  require_known_version(load<std::uint32_t>(head, version_at), path);
  const Envelope envelope{.file_size = load<std::uint64_t>(head, file_size_at),
                          .table_size = load<std::uint64_t>(head, table_size_at),
                          .hdf5_offset = load<std::uint64_t>(head, hdf5_offset_at),
                          .payload_digest_low = load<std::uint64_t>(head, digest_low_at),
                          .payload_digest_high = load<std::uint64_t>(head, digest_high_at)};
  require_size(file_size, envelope.file_size, path);
  require_layout(envelope, path);
  return envelope;
}

bool payload_is_whole(const Envelope& envelope, std::span<const std::byte> payload) {
  const XXH128_hash_t found = XXH3_128bits(payload.data(), payload.size());
  return found.low64 == envelope.payload_digest_low && found.high64 == envelope.payload_digest_high;
}

void write_checkpoint(const std::filesystem::path& path, const Snapshot& snapshot,
                      FileSystem& files) try {
  const std::size_t hdf5_offset = std::bit_ceil(envelope_size + table_size(snapshot));
  const hdf5::EncodedFile hdf5 = hdf5::encode(snapshot, hdf5_offset);
  const auto table = encode_table(hdf5.entries);
  auto head = make_head(table, hdf5.superblock, hdf5_offset);
  const auto pieces = list_pieces(head, snapshot, hdf5);
  seal(head, Pieces(pieces).subspan(1), table.size(), hdf5_offset);
  write_file_durably(path, Pieces(pieces), files);
} catch (const hdf5::Error& error) {
  throw OutputError(fmt::format("{}: the checkpoint cannot be stored in an HDF5 file: {}",
                                escaped(path.string()), error.what()),
                    "change the arrays that the model keeps");
}

std::uint64_t default_max_checkpoint_size() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

Snapshot read_checkpoint(const std::filesystem::path& path, std::uint64_t max_size,
                         FileSystem& files) try {
  const WholeFile file = read_whole(open_checkpoint(path, max_size, files), path);
  Snapshot snapshot(path.string());
  for (const ArrayEntry& entry : file.entries) {
    const auto bytes = file.entry_bytes(entry);
    snapshot.put(entry.path, StoredArray{entry.type, entry.shape, {bytes.begin(), bytes.end()}});
  }
  return snapshot;
} catch (const std::invalid_argument& error) {
  throw DamagedCheckpoint(
      fmt::format("{}: table of contents: {}", escaped(path.string()), error.what()),
      "use a checkpoint that this program wrote");
}

void verify_checkpoint(const std::filesystem::path& path, std::uint64_t max_size,
                       FileSystem& files) try {
  const WholeFile file = read_whole(open_checkpoint(path, max_size, files), path);
  if (hdf5::list_arrays(file.bytes, expected_attributes(file.bytes)) != file.entries) {
    throw hdf5::Error("HDF5 finds other arrays than the table of contents");
  }
} catch (const hdf5::Error& error) {
  throw DamagedCheckpoint(fmt::format("{}: {}", escaped(path.string()), error.what()),
                          "use a checkpoint that this program wrote");
}

}  // namespace tapestry
