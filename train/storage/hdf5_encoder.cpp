#include "train/storage/hdf5_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "train/storage/hdf5_attributes.h"
#include "train/storage/hdf5_handle.h"

// Names and section numbers are those of the "HDF5 File Format Specification Version 3.0".
namespace tapestry::hdf5 {
namespace {

static_assert(std::endian::native == std::endian::little, "HDF5 metadata is little-endian");

constexpr std::uint64_t undefined_address = ~std::uint64_t{0};
constexpr std::uint64_t no_free_block = 1;
constexpr std::size_t superblock_size = 96;

/// An axis of this length would be of unlimited size.
constexpr std::uint64_t unlimited = ~std::uint64_t{0};

/// A header counts its messages in 16 bits.
constexpr std::size_t max_attributes = 65'000;

// A node of symbols has at most 2 x leaf_k entries, a node of a B-tree at most 2 x internal_k
// children: the defaults of libhdf5.
constexpr std::uint16_t leaf_k = 4;
constexpr std::uint16_t internal_k = 16;
constexpr std::size_t max_symbols = 2 * leaf_k;
constexpr std::size_t max_children = 2 * internal_k;
constexpr std::size_t symbol_size = 40;
constexpr std::size_t tree_node_size = 24 + max_children * 16 + 8;

enum class Message : std::uint16_t {
  dataspace = 0x0001,
  datatype = 0x0003,
  fill_value = 0x0005,
  layout = 0x0008,
  attribute = 0x000C,
  symbol_table = 0x0011
};

std::uint64_t padded(std::uint64_t size) { return (size + 7) / 8 * 8; }

/// Bytes that are appended one after the other.
class Bytes {
 public:
  template <std::unsigned_integral T>
  void put(T value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }

  void put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  void put_text(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }

  void reserve(std::size_t size) { bytes_.reserve(size); }

  /// Appends zeros up to a multiple of 8 bytes.
  void pad() { bytes_.resize(padded(bytes_.size())); }

  void put_zeros(std::size_t count) { bytes_.resize(bytes_.size() + count); }

  template <std::unsigned_integral T>
  void overwrite(std::size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
  }

  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> view() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// ---- Parts of messages.

/// IV.A.2.d, class 1: sign in the highest bit, mantissa with an implied leading one.
void put_float_type(Bytes& bytes, std::uint8_t size, std::uint8_t exponent_bits) {
  const auto bits = static_cast<std::uint8_t>(8 * size);
  const auto mantissa_bits = static_cast<std::uint8_t>(bits - 1 - exponent_bits);
  bytes.put<std::uint8_t>(0x11);
  bytes.put<std::uint8_t>(0x20);
  bytes.put<std::uint8_t>(static_cast<std::uint8_t>(bits - 1));
  bytes.put<std::uint8_t>(0);
  bytes.put<std::uint32_t>(size);
  bytes.put<std::uint16_t>(0);  // offset of the first bit
  bytes.put<std::uint16_t>(bits);
  bytes.put<std::uint8_t>(mantissa_bits);  // where the exponent begins
  bytes.put<std::uint8_t>(exponent_bits);
  bytes.put<std::uint8_t>(0);  // where the mantissa begins
  bytes.put<std::uint8_t>(mantissa_bits);
  bytes.put<std::uint32_t>((std::uint32_t{1} << (exponent_bits - 1)) - 1);
}

/// IV.A.2.d, class 0.
void put_integer_type(Bytes& bytes, std::uint8_t size, bool is_signed) {
  bytes.put<std::uint8_t>(0x10);
  bytes.put<std::uint8_t>(is_signed ? 0x08 : 0x00);
  bytes.put<std::uint16_t>(0);
  bytes.put<std::uint32_t>(size);
  bytes.put<std::uint16_t>(0);  // offset of the first bit
  bytes.put<std::uint16_t>(static_cast<std::uint16_t>(8 * size));
}

/// IV.A.2.d, class 3: padded with NUL, UTF-8.
void put_string_type(Bytes& bytes, std::size_t size) {
  bytes.put<std::uint8_t>(0x13);
  bytes.put<std::uint8_t>(0x11);
  bytes.put<std::uint16_t>(0);
  bytes.put<std::uint32_t>(static_cast<std::uint32_t>(size));
}

Bytes element_datatype(ElementType type) {
  const auto size = static_cast<std::uint8_t>(element_size(type));
  Bytes bytes;
  switch (type) {
    case ElementType::float32:
      put_float_type(bytes, size, 8);
      break;
    case ElementType::float64:
      put_float_type(bytes, size, 11);
      break;
    case ElementType::int32:
    case ElementType::int64:
      put_integer_type(bytes, size, true);
      break;
    case ElementType::uint64:
    case ElementType::uint8:
      put_integer_type(bytes, size, false);
      break;
  }
  return bytes;
}

/// IV.A.2.b, version 1, without maximum lengths.
void put_dataspace(Bytes& bytes, const ArrayShape& shape) {
  bytes.put<std::uint8_t>(1);
  bytes.put(static_cast<std::uint8_t>(shape.size()));
  bytes.put_zeros(6);
  for (const std::uint64_t length : shape) bytes.put(length);
}

// ---- Objects.

/// What the symbol table entry of a group tells about it.
struct GroupLocation {
  std::uint64_t header = 0, tree = 0, heap = 0;
};

struct GroupEntry {
  std::string_view name;
  std::uint64_t header = 0;
};

/// Appends the objects of a file: first what is inside of a group, then the group.
class ObjectWriter {
 public:
  /// user_block_size  addresses are relative to it
  /// offset           of the first object in the file
  ObjectWriter(std::uint64_t user_block_size, std::uint64_t offset)
      : user_block_size_(user_block_size), first_address_(offset - user_block_size) {
    const auto types = {ElementType::float32, ElementType::float64, ElementType::int32,
                        ElementType::int64,   ElementType::uint64,  ElementType::uint8};
    for (const ElementType type : types) datatypes_.push_back(element_datatype(type));
  }

  GroupLocation write_root(const Snapshot& snapshot, std::span<const ArrayEntry> entries) {
    bytes_.reserve(expected_size(entries));
    GroupLocation root = write_links(entries, 0);
    const std::size_t header = begin_header();
    put_symbol_table(root);
    std::size_t attributes = 0;
    for (const auto& [path, array] : snapshot) {
      if (!has_attribute(array.type, array.shape, array.bytes)) continue;
      put_root_attribute(path, array);
      if (++attributes > max_attributes) {
        refuse("/", "more texts and scalars", fmt::format("at most {}", max_attributes));
      }
    }
    end_header(header, 1 + attributes);
    root.header = first_address_ + header;
    return root;
  }

  std::vector<std::byte> take() { return bytes_.take(); }

 private:
  /// About the bytes of all objects: a header, an entry in a node and a name for each array.
  static std::size_t expected_size(std::span<const ArrayEntry> entries) {
    constexpr std::size_t typical_header = 192, typical_entry = 48;
    std::size_t size = 64 * 1024;
    for (const ArrayEntry& entry : entries) {
      size += typical_header + typical_entry + 8 * entry.shape.size() + entry.path.size();
    }
    return size;
  }

  std::uint64_t address() const { return first_address_ + bytes_.size(); }

  // Object headers, IV.A.1.a.

  /// Returns the position of the header; its count and size are put in at its end.
  std::size_t begin_header() {
    const std::size_t header = bytes_.size();
    bytes_.put<std::uint16_t>(1);  // version
    bytes_.put<std::uint16_t>(0);
    bytes_.put<std::uint32_t>(1);  // links to the object
    bytes_.put_zeros(8);
    return header;
  }

  void end_header(std::size_t header, std::size_t messages) {
    const std::size_t size = bytes_.size() - header - 16;
    bytes_.overwrite(header + 2, static_cast<std::uint16_t>(messages));
    bytes_.overwrite(header + 8, static_cast<std::uint32_t>(size));
  }

  /// size  of the body that follows; a multiple of 8
  void put_message(Message type, std::size_t size, bool constant) {
    bytes_.put(static_cast<std::uint16_t>(type));
    bytes_.put(static_cast<std::uint16_t>(size));
    bytes_.put<std::uint32_t>(constant ? 1 : 0);
  }

  /// IV.A.2.m, version 1. Each part begins at a multiple of 8 bytes.
  ///
  /// type  a datatype, not padded
  void put_attribute(std::string_view name, std::span<const std::byte> type,
                     std::span<const std::byte> value) {
    constexpr std::size_t dataspace_size = 8;
    put_message(
        Message::attribute,
        8 + padded(name.size() + 1) + padded(type.size()) + dataspace_size + padded(value.size()),
        false);
    bytes_.put<std::uint16_t>(1);  // version
    bytes_.put(static_cast<std::uint16_t>(name.size() + 1));
    bytes_.put(static_cast<std::uint16_t>(type.size()));
    bytes_.put(static_cast<std::uint16_t>(dataspace_size));
    put_name(name);
    bytes_.put_bytes(type);
    bytes_.pad();
    put_dataspace(bytes_, {});
    bytes_.put_bytes(value);
    bytes_.pad();
  }

  void put_root_attribute(const std::string& name, const StoredArray& array) {
    const auto value = attribute_value(array.bytes);
    if (array.shape.empty()) return put_attribute(name, datatype(array.type), value);
    Bytes string;
    put_string_type(string, value.size());
    put_attribute(name, string.view(), value);
  }

  void put_name(std::string_view name) {
    bytes_.put_text(name);
    bytes_.put<std::uint8_t>(0);
    bytes_.pad();
  }

  std::span<const std::byte> datatype(ElementType type) const {
    return datatypes_.at(static_cast<std::size_t>(type) - 1).view();
  }

  // Datasets.

  std::uint64_t write_dataset(const ArrayEntry& entry) {
    const std::uint64_t begin = address();
    const std::size_t header = begin_header();
    put_message(Message::dataspace, 8 + 8 * entry.shape.size(), false);
    put_dataspace(bytes_, entry.shape);
    const auto type = datatype(entry.type);
    put_message(Message::datatype, padded(type.size()), true);
    bytes_.put_bytes(type);
    bytes_.pad();
    put_fill_value();
    put_layout(entry);
    put_attribute(digest_attribute, datatype(ElementType::uint64),
                  std::as_bytes(std::span(&entry.digest, 1)));
    end_header(header, 5);
    return begin;
  }

  /// IV.A.2.f, version 2: space is allocated early, nothing is filled in, the value is zero.
  void put_fill_value() {
    put_message(Message::fill_value, 8, true);
    bytes_.put<std::uint32_t>(0x01010102);
    bytes_.put<std::uint32_t>(0);
  }

  /// IV.A.2.i, version 3, class 1.
  void put_layout(const ArrayEntry& entry) {
    put_message(Message::layout, 24, false);
    bytes_.put<std::uint8_t>(3);
    bytes_.put<std::uint8_t>(1);
    bytes_.put(entry.size == 0 ? undefined_address : entry.offset - user_block_size_);
    bytes_.put(entry.size);
    bytes_.put_zeros(6);
  }

  // Groups.

  /// entries        with a common prefix of their paths
  /// prefix_length  up to and including its last slash
  GroupLocation write_links(std::span<const ArrayEntry> entries, std::size_t prefix_length) {
    std::vector<GroupEntry> links;
    while (!entries.empty()) {
      const std::string_view path = entries.front().path;
      const std::size_t slash = path.find('/', prefix_length);
      if (slash == path.npos) {
        links.push_back({path.substr(prefix_length), write_dataset(entries.front())});
        entries = entries.subspan(1);
        continue;
      }
      const auto inside = std::ranges::find_if_not(entries, [&](const ArrayEntry& entry) {
        return entry.path.starts_with(path.substr(0, slash + 1));
      });
      const auto count = static_cast<std::size_t>(inside - entries.begin());
      const std::uint64_t header = write_group(entries.first(count), slash + 1);
      links.push_back({path.substr(prefix_length, slash - prefix_length), header});
      entries = entries.subspan(count);
    }
    // In byte order of the paths, "a.b" precedes "a/b"; in that of the names, "a" precedes "a.b".
    if (!std::ranges::is_sorted(links, {}, &GroupEntry::name)) {
      std::ranges::sort(links, {}, &GroupEntry::name);
    }
    return write_symbol_table(links);
  }

  std::uint64_t write_group(std::span<const ArrayEntry> entries, std::size_t prefix_length) {
    const GroupLocation group = write_links(entries, prefix_length);
    const std::uint64_t begin = address();
    const std::size_t header = begin_header();
    put_symbol_table(group);
    end_header(header, 1);
    return begin;
  }

  /// IV.A.2.r.
  void put_symbol_table(const GroupLocation& group) {
    put_message(Message::symbol_table, 16, false);
    bytes_.put(group.tree);
    bytes_.put(group.heap);
  }

  /// A subtree of the names of a group.
  struct Child {
    std::uint64_t address = 0;
    std::uint64_t last_name = 0;  ///< offset in the heap
  };

  GroupLocation write_symbol_table(const std::vector<GroupEntry>& links) {
    GroupLocation group;
    group.heap = address();
    const std::vector<std::uint64_t> names = write_heap(links);
    std::vector<Child> children = write_symbol_nodes(links, names);
    for (std::uint8_t level = 0; level == 0 || children.size() > 1; ++level) {
      children = write_tree_level(children, level);
    }
    group.tree = children.front().address;
    return group;
  }

  /// III.D. Returns the offsets of the names; the empty name is at 0.
  std::vector<std::uint64_t> write_heap(const std::vector<GroupEntry>& links) {
    std::vector<std::uint64_t> offsets;
    std::uint64_t size = 8;
    for (const GroupEntry& link : links) {
      offsets.push_back(size);
      size += padded(link.name.size() + 1);
    }
    bytes_.put_text("HEAP");
    bytes_.put<std::uint32_t>(0);  // version
    bytes_.put(size);
    bytes_.put(no_free_block);
    bytes_.put(address() + 8);
    bytes_.put_zeros(8);
    for (const GroupEntry& link : links) put_name(link.name);
    return offsets;
  }

  /// III.B and III.C.
  std::vector<Child> write_symbol_nodes(const std::vector<GroupEntry>& links,
                                        const std::vector<std::uint64_t>& names) {
    std::vector<Child> nodes;
    for (std::size_t first = 0; first < links.size(); first += max_symbols) {
      const std::size_t count = std::min(max_symbols, links.size() - first);
      nodes.push_back({.address = address(), .last_name = names[first + count - 1]});
      bytes_.put_text("SNOD");
      bytes_.put<std::uint16_t>(1);  // version
      bytes_.put(static_cast<std::uint16_t>(count));
      for (std::size_t i = first; i < first + count; ++i) {
        bytes_.put(names[i]);
        bytes_.put(links[i].header);
        bytes_.put_zeros(symbol_size - 16);
      }
      bytes_.put_zeros((max_symbols - count) * symbol_size);
    }
    return nodes;
  }

  /// III.A.1: the nodes of one level of the tree, at least one. A key is the last name of the child
  /// before it.
  std::vector<Child> write_tree_level(const std::vector<Child>& children, std::uint8_t level) {
    std::vector<Child> nodes;
    std::uint64_t key = 0;
    do {
      const std::size_t first = nodes.size() * max_children;
      const std::size_t count = std::min(max_children, children.size() - first);
      const bool is_last = first + count == children.size();
      const std::uint64_t begin = address();
      bytes_.put_text("TREE");
      bytes_.put<std::uint8_t>(0);  // a tree of names
      bytes_.put(level);
      bytes_.put(static_cast<std::uint16_t>(count));
      bytes_.put(nodes.empty() ? undefined_address : begin - tree_node_size);
      bytes_.put(is_last ? undefined_address : begin + tree_node_size);
      bytes_.put(key);
      for (std::size_t i = first; i < first + count; ++i) {
        key = children[i].last_name;
        bytes_.put(children[i].address);
        bytes_.put(key);
      }
      bytes_.put_zeros((max_children - count) * 16);
      nodes.push_back({.address = begin, .last_name = key});
    } while (nodes.size() * max_children < children.size());
    return nodes;
  }

  std::uint64_t user_block_size_, first_address_;
  std::vector<Bytes> datatypes_;  ///< in the order of ElementType
  Bytes bytes_;
};

/// II.A, version 0.
std::vector<std::byte> make_superblock(std::uint64_t user_block_size, std::uint64_t file_size,
                                       const GroupLocation& root) {
  Bytes bytes;
  bytes.put_text("\x89HDF\r\n\x1a\n");
  bytes.put_zeros(5);          // versions
  bytes.put<std::uint8_t>(8);  // bytes of an address
  bytes.put<std::uint8_t>(8);  // bytes of a length
  bytes.put<std::uint8_t>(0);
  bytes.put(leaf_k);
  bytes.put(internal_k);
  bytes.put<std::uint32_t>(0);
  bytes.put(user_block_size);
  bytes.put(undefined_address);  // of free space
  bytes.put(file_size);
  bytes.put(undefined_address);  // of a driver
  // The symbol table entry of the root group.
  bytes.put<std::uint64_t>(0);
  bytes.put(root.header);
  bytes.put<std::uint64_t>(1);  // the addresses of tree and heap follow
  bytes.put(root.tree);
  bytes.put(root.heap);
  return bytes.take();
}

void require_lengths(const ArrayEntry& entry) {
  if (std::ranges::find(entry.shape, unlimited) == entry.shape.end()) return;
  refuse(entry.path, fmt::format("an axis of {}", unlimited), "a shorter one");
}

}  // namespace

EncodedFile encode(const Snapshot& snapshot, std::uint64_t user_block_size) {
  EncodedFile file;
  file.objects_offset = user_block_size + superblock_size;
  file.entries.reserve(snapshot.size());
  for (const auto& [path, array] : snapshot) {
    const std::uint64_t size = array.bytes.size();
    file.entries.push_back({.path = path,
                            .type = array.type,
                            .shape = array.shape,
                            .offset = size == 0 ? 0 : file.objects_offset,
                            .size = size,
                            .digest = array_digest(array.bytes)});
    require_lengths(file.entries.back());
    file.objects_offset += padded(size);
  }
  ObjectWriter writer(user_block_size, file.objects_offset);
  const GroupLocation root = writer.write_root(snapshot, file.entries);
  file.objects = writer.take();
  file.superblock =
      make_superblock(user_block_size, file.objects_offset + file.objects.size(), root);
  return file;
}

}  // namespace tapestry::hdf5
