// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/checkpoint_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/io/durable_file.h"
#include "data/io/file.h"
#include "data/io/hdf5.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/program.h"

namespace tapestry {
namespace {

using Bytes = std::span<const std::byte>;

constexpr const char* damage_hint = "copy the file again, or use an older checkpoint";

// ---- The user block.

static_assert(std::endian::native == std::endian::little, "the user block is little-endian");

constexpr std::string_view magic = "TAPESTRY";
constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";

/// The first bytes of a checkpoint. `magic`, `version` and `checksum` have the same offsets in all
/// format versions.
struct UserBlock {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t size = 0;  ///< size of this block in bytes
  std::uint64_t file_size = 0;
  std::uint64_t table_size = 0;   ///< size of the table of contents in versions 1 to 3, in bytes
  std::uint64_t hdf5_offset = 0;  ///< offset of the HDF5 part
  std::uint64_t digest_low = 0;   ///< XXH3-128 of all bytes after this block, bits 0 to 63
  std::uint64_t digest_high = 0;  ///< bits 64 to 127
  std::array<std::byte, 448> zeros{};
  std::uint64_t checksum = 0;  ///< XXH3-64 of the preceding bytes of the block
};
constexpr std::size_t block_size = 512;
static_assert(sizeof(UserBlock) == block_size);

std::uint64_t checksum_of(const UserBlock& block) {
  return XXH3_64bits(&block, offsetof(UserBlock, checksum));
}

/// XXH3-128 of the concatenation of several byte ranges.
class Digest {
 public:
  Digest() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }

  void add(Bytes bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }
  XXH128_hash_t value() const { return XXH3_128bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

bool starts_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

std::string describe_start(Bytes head, const std::filesystem::path& path) {
  if (path.extension() == ".yaml" || path.extension() == ".yml") return "a YAML file";
  if (head.empty()) return "an empty file";
  if (starts_with(head, hdf5_signature)) return "an HDF5 file without Tapestry's user block";
  std::string text = "a file that begins with the bytes";
  for (const std::byte byte : head.first(std::min(head.size(), magic.size()))) {
    text += fmt::format(" {:02x}", std::to_integer<unsigned>(byte));
  }
  return text;
}

[[noreturn]] void reject_damage(const OpenFile& file, const std::string& what) {
  throw DamagedCheckpoint(fmt::format("{}: {}", file.name(), what), damage_hint);
}

void require_magic(Bytes head, const OpenFile& file, const std::filesystem::path& path) {
  if (starts_with(head, magic)) return;
  throw DamagedCheckpoint(
      fmt::format("{}: not a Tapestry checkpoint: found {}, expected '{}'", file.name(),
                  describe_start(head, path), magic),
      fmt::format("give a file that `{} train` wrote, such as step-00001000.h5", program_name()));
}

void require_known_version(const UserBlock& block, const OpenFile& file) {
  if (block.version >= 1 && block.version <= checkpoint_format_version) return;
  const bool newer = block.version > checkpoint_format_version;
  throw CheckpointError(
      fmt::format("{}: written by {} version of Tapestry: found format {}, expected 1 to {}",
                  file.name(), newer ? "a newer" : "an unknown", block.version,
                  checkpoint_format_version),
      "use the version of Tapestry that wrote the checkpoint, or a newer one");
}

void require_file_size(const UserBlock& block, const OpenFile& file) {
  if (file.size() == block.file_size) return;
  reject_damage(file, fmt::format("the checkpoint is {}: found {} bytes, expected {}",
                                  file.size() < block.file_size ? "truncated" : "too long",
                                  file.size(), block.file_size));
}

/// throws  DamagedCheckpoint if the file is not a checkpoint or its user block or size is damaged;
///         CheckpointError if only a different version of the program can read it
UserBlock read_user_block(const OpenFile& file, const std::filesystem::path& path) {
  UserBlock block;
  const auto bytes = std::as_writable_bytes(std::span(&block, 1));
  const Bytes head = bytes.first(file.read_at(0, bytes));
  require_magic(head, file, path);
  if (head.size() < block_size) {
    reject_damage(file, fmt::format("the checkpoint is truncated: found {} bytes, expected more "
                                    "than {}",
                                    head.size(), block_size));
  }
  if (block.checksum != checksum_of(block)) {
    reject_damage(file,
                  fmt::format("the user block is damaged: found checksum {:016x}, expected {:016x}",
                              checksum_of(block), block.checksum));
  }
  require_known_version(block, file);
  require_file_size(block, file);
  return block;
}

/// Compares the digest with the bytes after the user block. Throws DamagedCheckpoint if they
/// differ.
void require_digest(const UserBlock& block, const OpenFile& file) {
  constexpr std::size_t chunk = std::size_t{1} << 20;
  std::vector<std::byte> bytes(std::min<std::uint64_t>(chunk, file.size()));
  Digest digest;
  for (std::uint64_t at = block_size; at < file.size();) {
    const auto part = std::span(bytes).first(std::min<std::uint64_t>(chunk, file.size() - at));
    file.read_all_at(at, part);
    digest.add(part);
    at += part.size();
  }
  const XXH128_hash_t found = digest.value();
  if (found.low64 == block.digest_low && found.high64 == block.digest_high) return;
  reject_damage(file, "the checkpoint is damaged: its digest does not match its bytes");
}

// ---- Writing.

/// Records the parts of a file that libhdf5 writes when it allocates arrays without writing their
/// elements: headers and names. Bytes that were never written are 0.
///
/// libhdf5 lays out the file only in memory. If libhdf5 wrote the file on disk, it would use a
/// system call for each header and each small array, in arbitrary order, and might crash after a
/// failed write. Instead, write_checkpoint() computes the digest and writes the file in a few large
/// pieces.
class HeaderFile : public hdf5::VirtualFile {
 public:
  void read(std::uint64_t offset, std::span<std::byte> bytes) override {
    for_each_page(offset, bytes, [](Page& page, std::size_t at, std::span<std::byte> part) {
      std::copy_n(page.begin() + static_cast<std::ptrdiff_t>(at), part.size(), part.begin());
    });
  }

 protected:
  std::uint64_t size() const override {
    return pages_.empty() ? 0 : (pages_.rbegin()->first + 1) * page_size;
  }

  void write(std::uint64_t offset, Bytes bytes) override {
    for_each_page(offset, bytes, [](Page& page, std::size_t at, Bytes part) {
      std::ranges::copy(part, page.begin() + static_cast<std::ptrdiff_t>(at));
    });
  }

 private:
  static constexpr std::size_t page_size = 4096;
  using Page = std::array<std::byte, page_size>;

  /// Calls use(page, offset in the page, the part of `bytes` in that page) for each page of the
  /// range.
  template <class Byte, class Use>
  void for_each_page(std::uint64_t offset, std::span<Byte> bytes, const Use& use) {
    while (!bytes.empty()) {
      const std::size_t at = offset % page_size;
      const std::size_t count = std::min(bytes.size(), page_size - at);
      use(pages_[offset / page_size], at, bytes.first(count));
      offset += count;
      bytes = bytes.subspan(count);
    }
  }

  std::map<std::uint64_t, Page> pages_;
};

/// Whether an array is stored as an HDF5 string, which other programs show as text: if its bytes
/// are valid UTF-8 without NUL, or if it is empty.
bool is_written_as_string(const StoredArray& array) {
  constexpr std::size_t max_string = std::size_t{1} << 31;
  if (array.type != ElementType::uint8 || array.shape.size() != 1) return false;
  const std::string_view text(reinterpret_cast<const char*>(array.bytes.data()),
                              array.bytes.size());
  return text.size() < max_string && text.find('\0') == text.npos && !find_invalid_utf8(text);
}

hid_t number_type(ElementType type) {
  const std::array types = {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_STD_I32LE,
                            H5T_STD_I64LE,  H5T_STD_U64LE,  H5T_STD_U8LE};
  return types.at(static_cast<std::size_t>(type));
}

/// The type of a string of fixed length. An empty string has length 1, since HDF5 does not support
/// length 0.
hdf5::Datatype text_type(std::size_t bytes) {
  hdf5::Datatype type(H5Tcopy(H5T_C_S1), "create a string type");
  hdf5::require(H5Tset_size(type.get(), std::max<std::size_t>(bytes, 1)),
                "set the size of a string type");
  hdf5::require(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "set the padding of a string type");
  hdf5::require(H5Tset_cset(type.get(), H5T_CSET_UTF8), "set the encoding of a string type");
  return type;
}

hdf5::Dataspace make_space(const ArrayShape& shape, const std::string& path) {
  if (shape.empty()) return {H5Screate(H5S_SCALAR), "create a shape for", path};
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  return {H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), "shape",
          path};
}

/// Creates the datasets of arrays in a file. Allocates space for their elements without writing it.
class DatasetMaker {
 public:
  DatasetMaker()
      : link_(H5Pcreate(H5P_LINK_CREATE), "create dataset properties"),
        dataset_(H5Pcreate(H5P_DATASET_CREATE), "create dataset properties") {
    hdf5::require(H5Pset_create_intermediate_group(link_.get(), 1), "enable intermediate groups");
    hdf5::require(H5Pset_layout(dataset_.get(), H5D_CONTIGUOUS), "choose contiguous storage");
    hdf5::require(H5Pset_alloc_time(dataset_.get(), H5D_ALLOC_TIME_EARLY),
                  "choose early allocation");
    hdf5::require(H5Pset_fill_time(dataset_.get(), H5D_FILL_TIME_NEVER), "disable fill values");
    hdf5::require(H5Pset_obj_track_times(dataset_.get(), false), "disable timestamps");
  }

  /// Returns the offset of the array in the file, or nullopt if it has no elements.
  std::optional<std::uint64_t> create(const hdf5::File& file, const std::string& path,
                                      const StoredArray& array) const {
    const bool text = is_written_as_string(array);
    const hdf5::Datatype type =
        text ? text_type(array.bytes.size())
             : hdf5::Datatype(H5Tcopy(number_type(array.type)), "copy a type");
    const hdf5::Dataspace space = make_space(text ? ArrayShape{} : array.shape, path);
    const hdf5::Dataset dataset(H5Dcreate2(file.get(), path.c_str(), type.get(), space.get(),
                                           link_.get(), dataset_.get(), H5P_DEFAULT),
                                "create", path);
    if (array.bytes.empty()) return std::nullopt;
    const haddr_t offset = H5Dget_offset(dataset.get());
    if (offset == HADDR_UNDEF) hdf5::fail("allocate", path);
    return offset;
  }

 private:
  hdf5::PropertyList link_, dataset_;
};

/// Bytes and their offset in a file.
struct Piece {
  std::uint64_t offset = 0;
  Bytes bytes;
};

/// Lets libhdf5 lay out a file with space for each array. Returns the arrays with their offsets, in
/// ascending order.
std::vector<Piece> lay_out(const ArrayStore& arrays, HeaderFile& header) {
  const hdf5::PropertyList creation(H5Pcreate(H5P_FILE_CREATE), "create file properties");
  hdf5::require(H5Pset_userblock(creation.get(), block_size), "reserve the user block");
  hdf5::require(H5Pset_obj_track_times(creation.get(), false), "disable timestamps");
  hdf5::File file = header.create(creation);
  const DatasetMaker maker;
  std::vector<Piece> pieces;
  for (const auto& [path, array] : arrays) {
    const auto offset = maker.create(file, path, array);
    if (offset) pieces.push_back({.offset = *offset, .bytes = array.bytes});
  }
  file.close("write the headers");
  header.rethrow_error();
  std::ranges::sort(pieces, {}, &Piece::offset);
  return pieces;
}

/// The content of a whole file. The arrays are not copied.
struct FileContent {
  std::vector<std::byte> headers;  ///< all bytes between the arrays; begins with the user block
  std::vector<Bytes> pieces{};     ///< in the order of the file
};

FileContent interleave(const std::vector<Piece>& arrays, HeaderFile& header) {
  std::uint64_t headers_size = header.allocated();
  for (const Piece& array : arrays) headers_size -= array.bytes.size();
  FileContent content{.headers = std::vector<std::byte>(headers_size)};
  std::span<std::byte> rest = content.headers;
  std::uint64_t end = 0;
  const auto add_header_until = [&](std::uint64_t offset) {
    const auto part = rest.first(offset - end);
    header.read(end, part);
    if (!part.empty()) content.pieces.emplace_back(part);
    rest = rest.subspan(part.size());
  };
  for (const Piece& array : arrays) {
    add_header_until(array.offset);
    content.pieces.push_back(array.bytes);
    end = array.offset + array.bytes.size();
  }
  add_header_until(header.allocated());
  return content;
}

/// Fills in the user block at the start of the content.
void write_user_block(FileContent& content) {
  UserBlock block{.version = checkpoint_format_version, .size = block_size};
  std::ranges::copy(magic, block.magic.begin());
  block.hdf5_offset = block.file_size = block_size;
  Digest digest;
  const auto add = [&](Bytes piece) {
    digest.add(piece);
    block.file_size += piece.size();
  };
  add(content.pieces.front().subspan(block_size));
  for (const Bytes piece : std::span(content.pieces).subspan(1)) add(piece);
  block.digest_low = digest.value().low64;
  block.digest_high = digest.value().high64;
  block.checksum = checksum_of(block);
  std::memcpy(content.headers.data(), &block, block_size);
}

FileContent encode(const ArrayStore& arrays) {
  const hdf5::Session session(arrays.size());
  HeaderFile header;
  try {
    FileContent content = interleave(lay_out(arrays, header), header);
    write_user_block(content);
    return content;
  } catch (const hdf5::Error&) {
    header.rethrow_error();
    throw;
  }
}

// ---- Reading.

/// Lets libhdf5 read a file on disk through OpenFile.
class DiskFile : public hdf5::VirtualFile {
 public:
  explicit DiskFile(const OpenFile& file) : file_(file) {}

 protected:
  std::uint64_t size() const override { return file_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> bytes) override {
    const std::size_t count = file_.read_at(offset, bytes);
    std::ranges::fill(bytes.subspan(count), std::byte{0});
  }

 private:
  const OpenFile& file_;
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

/// The element type of a dataset; uint8 for a string.
ElementType element_type(const hdf5::Datatype& type, const std::string& path) {
  const bool is_string = H5Tget_class(type.get()) == H5T_STRING;
  if (is_string && H5Tis_variable_str(type.get()) == 0) return ElementType::uint8;
  for (const ElementType each : {ElementType::float32, ElementType::float64, ElementType::int32,
                                 ElementType::int64, ElementType::uint64, ElementType::uint8}) {
    if (H5Tequal(type.get(), number_type(each)) > 0) return each;
  }
  hdf5::reject(path, "an unsupported type",
               "float32, float64, int32, int64, uint64, uint8 or text");
}

StoredArray read_array(const hdf5::Object& dataset, const std::string& path) {
  const hdf5::Datatype type(H5Dget_type(dataset.get()), "read the type and shape of", path);
  const hdf5::Dataspace space(H5Dget_space(dataset.get()), "read the type and shape of", path);
  StoredArray array{
      .type = element_type(type, path), .shape = hdf5::read_shape(space, path), .bytes = {}};
  array.bytes.resize(H5Dget_storage_size(dataset.get()));
  if (!array.bytes.empty()) {
    hdf5::require(
        H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, array.bytes.data()),
        "read", path);
  }
  if (H5Tget_class(type.get()) != H5T_STRING) return array;
  if (array.bytes.size() == 1 && array.bytes.front() == std::byte{0}) array.bytes.clear();
  array.shape = {array.bytes.size()};
  return array;
}

/// Called by HDF5 for each link of a group.
herr_t add_name(hid_t /*group*/, const char* name, const H5L_info_t* /*info*/, void* names) try {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
} catch (const std::bad_alloc&) {
  return -1;
}

/// Reads all arrays of a group and its subgroups.
///
/// path  path of the group with a slash at its end; empty for the root group
void read_group(const hdf5::Object& group, const std::string& path, ArrayStore& arrays) {
  std::vector<std::string> names;
  hdf5::require(H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name, &names),
                "list the group", path);
  for (const std::string& name : names) {
    const std::string inside = path + name;
    const hdf5::Object object(H5Oopen(group.get(), name.c_str(), H5P_DEFAULT), "open", inside);
    if (H5Iget_type(object.get()) == H5I_GROUP) {
      read_group(object, inside + '/', arrays);
    } else {
      arrays.put(inside, read_array(object, inside));
    }
  }
}

ArrayStore read_arrays(const OpenFile& file, const std::string& origin) {
  const hdf5::Session session;
  DiskFile disk(file);
  ArrayStore arrays(origin);
  try {
    const hdf5::File opened = disk.open();
    read_group(hdf5::Object(H5Oopen(opened.get(), "/", H5P_DEFAULT), "open the root group"), "",
               arrays);
  } catch (const hdf5::Error&) {
    disk.rethrow_error();
    throw;
  }
  disk.rethrow_error();
  return arrays;
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const ArrayStore& arrays,
                      FileSystem& files) try {
  const FileContent content = encode(arrays);
  write_file_durably(path, Pieces(content.pieces), files);
} catch (const hdf5::Error& error) {
  throw OutputError(
      fmt::format("{}: could not encode the checkpoint: {}", escaped(path.string()), error.what()),
      "change the arrays that the model keeps");
}

ArrayStore read_checkpoint(const std::filesystem::path& path, std::uint64_t max_size,
                           FileSystem& files) {
  const OpenFile file = open_checkpoint(path, max_size, files);
  try {
    require_digest(read_user_block(file, path), file);
    ArrayStore arrays = read_arrays(file, path.string());
    file.require_unchanged(file.size());
    return arrays;
  } catch (const FileError& error) {
    throw DamagedCheckpoint(error.what(), error.hint());
  } catch (const hdf5::Error& error) {
    reject_damage(file, error.what());
  } catch (const std::invalid_argument& error) {
    reject_damage(file, error.what());
  }
}

}  // namespace tapestry
