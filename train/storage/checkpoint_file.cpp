#include "train/storage/checkpoint_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data/io/escape.h"
#include "train/error.h"
#include "train/platform/durable_file.h"
#include "train/storage/checkpoint_envelope.h"
#include "train/storage/checkpoint_table.h"
#include "train/storage/hdf5_handle.h"
#include "train/storage/hdf5_checkpoint.h"

namespace tapestry {
namespace {

// ---- Writing.

std::vector<std::byte> build(const Snapshot& snapshot) {
  const std::size_t hdf5_offset = std::bit_ceil(envelope_size + table_size(snapshot));
  std::vector<std::byte> file = hdf5::write_image(snapshot, hdf5_offset);
  const auto entries = hdf5::list_arrays(file);
  // HDF5 was seen to report success after running out of memory, so its work is compared.
  const bool same = holds(file, entries, snapshot);
  if (!same) throw hdf5::Error("HDF5 stored something else than it was given");
  const auto table = encode_table(entries);
  std::ranges::copy(table, file.begin() + envelope_size);
  seal(file, table.size(), hdf5_offset);
  return file;
}

// ---- Reading.

/// A file in memory that is proven to be the one that was written.
struct WholeFile {
  std::vector<std::byte> bytes;
  std::vector<ArrayEntry> entries;

  std::span<const std::byte> bytes_of(const ArrayEntry& entry) const {
    return std::span(bytes).subspan(entry.offset, entry.size);
  }
};

InputFile open_checkpoint(const std::filesystem::path& path, std::uint64_t max_size,
                          FileSystem& files) try {
  InputFile file(path, files);
  if (file.size() > max_size) {
    throw CheckpointError(fmt::format("{}: found {} bytes, expected at most {}", path.string(),
                                      file.size(), max_size),
                          "use a machine with more memory");
  }
  return file;
} catch (const InputError& error) {
  throw CheckpointError(error.what(), error.hint());
}

std::vector<std::string> damaged_arrays(const WholeFile& file) {
  std::vector<std::string> damaged;
  for (const ArrayEntry& entry : file.entries) {
    if (array_digest(file.bytes_of(entry)) != entry.digest) damaged.push_back(entry.path);
  }
  return damaged;
}

WholeFile with_entries(std::vector<std::byte> bytes, const Envelope& envelope,
                       const std::filesystem::path& path) {
  const auto table = std::span(bytes).subspan(envelope_size, envelope.table_size);
  auto entries = decode_table(table, {envelope.hdf5_offset, envelope.file_size}, path);
  return {std::move(bytes), std::move(entries)};
}

/// Says which part of a file was altered, as far as its table of contents can tell.
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

/// A program that altered arrays and sealed the file again may have forgotten them.
void require_told_digests(const WholeFile& file, const std::filesystem::path& path) {
  const auto damaged = damaged_arrays(file);
  if (damaged.empty()) return;
  throw DamagedCheckpoint(
      fmt::format("{}: {}: found another digest than the table of contents tells", path.string(),
                  excerpt(damaged.front())),
      "use a checkpoint that this program wrote");
}

/// Checks the envelope before memory is taken for the rest.
WholeFile read_whole(InputFile file, const std::filesystem::path& path) try {
  std::vector<std::byte> bytes(std::min<std::uint64_t>(envelope_size, file.size()));
  file.read_at(0, bytes);
  const Envelope envelope = open_envelope(bytes, file.size(), path);
  bytes.resize(file.size());
  const auto payload = std::span(bytes).subspan(envelope_size);
  file.read_at(envelope_size, payload);
  if (!payload_is_whole(envelope, payload)) {
    throw DamagedCheckpoint(
        fmt::format("{}: the checkpoint is damaged: found other bytes than were written in {}",
                    path.string(), locate_damage(std::move(bytes), envelope, path)),
        "copy the file again, or use an older checkpoint");
  }
  WholeFile whole = with_entries(std::move(bytes), envelope, path);
  require_told_digests(whole, path);
  return whole;
} catch (const InputError& error) {
  throw DamagedCheckpoint(error.what(), error.hint());
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Snapshot& snapshot,
                      FileSystem& files) try {
  write_file_durably(path, build(snapshot), files);
} catch (const hdf5::Error& error) {
  throw OutputError(fmt::format("{}: the checkpoint could not be built in memory: {}",
                                path.string(), error.what()),
                    "check that enough memory is free");
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
    const auto bytes = file.bytes_of(entry);
    snapshot.put(entry.path, StoredArray{entry.type, entry.shape, {bytes.begin(), bytes.end()}});
  }
  return snapshot;
} catch (const std::invalid_argument& error) {
  throw DamagedCheckpoint(fmt::format("{}: table of contents: {}", path.string(), error.what()),
                          "use a checkpoint that this program wrote");
}

void verify_checkpoint(const std::filesystem::path& path, std::uint64_t max_size,
                       FileSystem& files) try {
  const WholeFile file = read_whole(open_checkpoint(path, max_size, files), path);
  if (hdf5::list_arrays(file.bytes) != file.entries) {
    throw hdf5::Error("HDF5 finds other arrays than the table of contents");
  }
} catch (const hdf5::Error& error) {
  throw DamagedCheckpoint(fmt::format("{}: {}", path.string(), error.what()),
                          "use a checkpoint that this program wrote");
}

}  // namespace tapestry
