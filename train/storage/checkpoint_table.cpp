#include "train/storage/checkpoint_table.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "data/io/utf8.h"
#include "train/error.h"

namespace tapestry {
namespace {

static_assert(std::endian::native == std::endian::little, "the table is little-endian");

/// The fixed-size start of an entry; its axes and its path follow.
struct EntryHead {
  std::uint64_t offset;
  std::uint64_t size;
  std::uint64_t digest;
  std::uint8_t type;
  std::uint8_t rank;
  std::uint16_t path_length;
  std::uint32_t zero;
};
static_assert(sizeof(EntryHead) == 32);

std::size_t padded(std::size_t size) { return (size + 7) / 8 * 8; }

std::size_t entry_size(const std::string& path, const ArrayShape& shape) {
  return sizeof(EntryHead) + 8 * shape.size() + padded(path.size());
}

class TableEncoder {
 public:
  explicit TableEncoder(std::size_t size) { bytes_.reserve(size); }

  void put(const void* source, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(source);
    bytes_.insert(bytes_.end(), first, first + size);
    bytes_.resize(padded(bytes_.size()));
  }

  void put(const ArrayEntry& entry) {
    const EntryHead head{.offset = entry.offset,
                         .size = entry.size,
                         .digest = entry.digest,
                         .type = static_cast<std::uint8_t>(entry.type),
                         .rank = static_cast<std::uint8_t>(entry.shape.size()),
                         .path_length = static_cast<std::uint16_t>(entry.path.size()),
                         .zero = 0};
    put(&head, sizeof head);
    put(entry.shape.data(), 8 * entry.shape.size());
    put(entry.path.data(), entry.path.size());
  }

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class TableDecoder {
 public:
  TableDecoder(std::span<const std::byte> table, const std::filesystem::path& path)
      : rest_(table), path_(path) {}

  std::vector<ArrayEntry> read_all() {
    std::uint64_t count = 0;
    take(&count, sizeof count);
    std::vector<ArrayEntry> entries;
    for (; count > 0; --count) entries.push_back(read_entry());
    if (!rest_.empty()) refuse(fmt::format("{} bytes behind the last entry", rest_.size()), "none");
    return entries;
  }

  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw DamagedCheckpoint(fmt::format("{}: table of contents: found {}, expected {}",
                                        escaped(path_.string()), found, expected),
                            "use a checkpoint that this program wrote");
  }

 private:
  ArrayEntry read_entry() {
    EntryHead head{};
    take(&head, sizeof head);
    if (head.type < 1 || head.type > element_type_count) {
      refuse(fmt::format("element type {}", head.type), fmt::format("1 to {}", element_type_count));
    }
    if (head.zero != 0) refuse(fmt::format("{} in reserved bytes", head.zero), "0");
    ArrayEntry entry{.path = std::string(head.path_length, '\0'),
                     .type = static_cast<ElementType>(head.type),
                     .shape = ArrayShape(head.rank),
                     .offset = head.offset,
                     .size = head.size,
                     .digest = head.digest};
    take(entry.shape.data(), 8 * entry.shape.size());
    take(entry.path.data(), entry.path.size());
    return entry;
  }

  void take(void* target, std::size_t size) {
    if (padded(size) > rest_.size()) {
      refuse(fmt::format("{} bytes left", rest_.size()), fmt::format("{}", padded(size)));
    }
    if (size > 0) std::memcpy(target, rest_.data(), size);
    const auto padding = rest_.subspan(size, padded(size) - size);
    if (std::ranges::any_of(padding, [](std::byte byte) { return byte != std::byte{0}; })) {
      refuse("other bytes behind a path", "zeros");
    }
    rest_ = rest_.subspan(padded(size));
  }

  std::span<const std::byte> rest_;
  const std::filesystem::path& path_;
};

void require_inside(const ArrayEntry& entry, DataRange data, const TableDecoder& decoder) {
  if (entry.size == 0 && entry.offset == 0) return;
  if (entry.offset >= data.begin && entry.offset <= data.end &&
      entry.size <= data.end - entry.offset) {
    return;
  }
  decoder.refuse(
      fmt::format("{} with {} bytes at {}", excerpt(entry.path), entry.size, entry.offset),
      fmt::format("all between {} and {}", data.begin, data.end));
}

/// Refuses overlapping arrays, with which a small file could expand to fill the memory.
void require_disjoint(const std::vector<ArrayEntry>& entries, const TableDecoder& decoder) {
  std::vector<const ArrayEntry*> by_offset;
  for (const ArrayEntry& entry : entries) {
    if (entry.size > 0) by_offset.push_back(&entry);
  }
  std::ranges::sort(by_offset, {}, &ArrayEntry::offset);
  const auto overlap = std::ranges::adjacent_find(
      by_offset,
      [](const ArrayEntry* a, const ArrayEntry* b) { return a->offset + a->size > b->offset; });
  if (overlap != by_offset.end()) {
    decoder.refuse(fmt::format("{} and {} sharing bytes", excerpt((*overlap)->path),
                               excerpt(overlap[1]->path)),
                   "bytes of their own");
  }
}

}  // namespace

std::uint64_t array_digest(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::size_t table_size(const Snapshot& snapshot) {
  std::size_t size = 8;
  for (const auto& [path, array] : snapshot) size += entry_size(path, array.shape);
  return size;
}

std::vector<std::byte> encode_table(const std::vector<ArrayEntry>& entries) {
  std::size_t size = 8;
  for (const ArrayEntry& entry : entries) size += entry_size(entry.path, entry.shape);
  TableEncoder encoder(size);
  const std::uint64_t count = entries.size();
  encoder.put(&count, sizeof count);
  for (const ArrayEntry& entry : entries) encoder.put(entry);
  return encoder.take();
}

std::vector<ArrayEntry> decode_table(std::span<const std::byte> table, DataRange data,
                                     const std::filesystem::path& path) {
  TableDecoder decoder(table, path);
  std::vector<ArrayEntry> entries = decoder.read_all();
  for (const ArrayEntry& entry : entries) require_inside(entry, data, decoder);
  require_disjoint(entries, decoder);
  return entries;
}

}  // namespace tapestry
