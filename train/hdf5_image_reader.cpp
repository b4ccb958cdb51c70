#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "train/hdf5_handle.h"
#include "train/hdf5_image.h"

namespace tapestry::hdf5 {
namespace {

[[noreturn]] void refuse(std::string_view path, std::string_view found, std::string_view expected) {
  throw Error(fmt::format("{}: found {}, expected {}", path, found, expected));
}

// ---- The image as a file, without a copy. HDF5 asks these functions for memory and copies; they
// give it the one image again and again. It is opened for reading only and never written to.

void* same_image(std::size_t /*size*/, H5FD_file_image_op_t /*why*/, void* image) { return image; }

void* copy_nothing(void* to, const void* from, std::size_t /*size*/, H5FD_file_image_op_t /*why*/,
                   void* /*image*/) {
  return to == from ? to : nullptr;
}

// GCOVR_EXCL_START: a file that is only read never grows.
void* never_resize(void* /*memory*/, std::size_t /*size*/, H5FD_file_image_op_t /*why*/,
                   void* /*image*/) {
  return nullptr;
}
// GCOVR_EXCL_STOP

herr_t free_nothing(void* /*memory*/, H5FD_file_image_op_t /*why*/, void* /*image*/) { return 0; }

void* same_pointer(void* image) { return image; }

herr_t free_no_pointer(void* /*image*/) { return 0; }

File open_image(std::span<const std::byte> image) {
  void* bytes = const_cast<std::byte*>(image.data());
  H5FD_file_image_callbacks_t callbacks{same_image,   copy_nothing,    never_resize, free_nothing,
                                        same_pointer, free_no_pointer, bytes};
  const PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "prepare to read");
  require(H5Pset_fapl_core(access.get(), 64 * 1024, 0), "keep off the disk");
  require(H5Pset_file_image_callbacks(access.get(), &callbacks), "use the file in memory");
  require(H5Pset_file_image(access.get(), bytes, image.size()), "use the file in memory");
  return {H5Fopen(name_in_memory, H5F_ACC_RDONLY, access.get()), "open the file"};
}

// ---- Links and objects.

struct Links {
  std::vector<std::pair<std::string, H5L_type_t>> found;
  std::size_t limit = 0;

  void add(const char* name, H5L_type_t type) {
    if (found.size() >= limit) throw Error("more links than are allowed");
    found.emplace_back(name, type);
  }
};

/// Called by HDF5 for each link of a group; must not throw through it.
herr_t collect_link(hid_t /*group*/, const char* name, const H5L_info_t* info, void* links) try {
  static_cast<Links*>(links)->add(name, info->type);
  return 0;
} catch (...) {
  return -1;
}

/// Walks the groups of a file and lists its datasets; refuses whatever a Snapshot cannot hold.
class Inventory {
 public:
  Inventory(const File& file, std::size_t max_objects) : max_objects_(max_objects) {
    const Object root(H5Oopen(file.get(), "/", H5P_DEFAULT), "open the root group");
    visit_object(root, "", 0);
  }

  std::vector<ArrayEntry> take() { return std::move(entries_); }

 private:
  void visit_object(const Object& object, const std::string& path, std::size_t depth) {
    const H5O_info_t info = describe(object, path);
    if (depth > max_path_depth)
      refuse(path, "groups nested deeper", fmt::to_string(max_path_depth));
    if (info.type == H5O_TYPE_GROUP) {
      visit_group(object, info, path, depth);
    } else if (info.type == H5O_TYPE_DATASET) {
      visit_dataset(object, info, path);
    } else {
      refuse(path, "an object of another kind", "a group or a dataset");
    }
  }

  /// Also refuses an object that is reached a second time, so the walk cannot run in circles.
  H5O_info_t describe(const Object& object, const std::string& path) {
    H5O_info_t info{};
    require(H5Oget_info2(object.get(), &info, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS), "look at",
            path);
    if (!seen_.insert(info.addr).second || info.rc > 1) refuse(path, "several links", "one");
    if (seen_.size() > max_objects_) refuse(path, "more objects", fmt::to_string(max_objects_));
    return info;
  }

  void visit_group(const Object& group, const H5O_info_t& info, const std::string& path,
                   std::size_t depth) {
    if (info.num_attrs != 0) refuse(path, "attributes of a group", "none");
    Links links{.found = {}, .limit = max_objects_ - seen_.size()};
    require(H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_link, &links),
            fmt::format("list the group '{}'", path));
    for (const auto& [name, type] : links.found) {
      if (!is_path_component(name)) refuse(path, fmt::format("the name '{}'", name), "plain ASCII");
      const std::string inside = path.empty() ? name : path + '/' + name;
      if (type != H5L_TYPE_HARD) refuse(inside, "a soft or external link", "a hard link");
      const Object object(H5Oopen(group.get(), name.c_str(), H5P_DEFAULT), "open", inside);
      visit_object(object, inside, depth + 1);
    }
  }

  void visit_dataset(const Object& dataset, const H5O_info_t& info, const std::string& path);

  std::size_t max_objects_;
  std::vector<ArrayEntry> entries_;
  std::set<haddr_t> seen_;
};

// ---- Datasets.

/// Must come first: asking a virtual dataset for its shape already opens other files.
void require_plain_storage(const Object& dataset, const std::string& path) {
  const PropertyList creation(H5Dget_create_plist(dataset.get()), "look at", path);
  if (H5Pget_layout(creation.get()) != H5D_CONTIGUOUS) {
    refuse(path, "chunked, compact or virtual storage", "contiguous storage");
  }
  if (H5Pget_external_count(creation.get()) != 0) {
    refuse(path, "storage in other files", "storage in this one");
  }
  if (H5Pget_nfilters(creation.get()) != 0) refuse(path, "filters", "none");
}

std::optional<ElementType> element_type_in(const Datatype& type) {
  constexpr std::array types{ElementType::float32, ElementType::float64, ElementType::int32,
                             ElementType::int64,   ElementType::uint64,  ElementType::uint8};
  const auto match = std::ranges::find_if(types, [&](ElementType candidate) {
    return require(H5Tequal(type.get(), file_type(candidate)), "compare types") > 0;
  });
  return match != types.end() ? std::optional(*match) : std::nullopt;
}

ElementType read_type(const Object& dataset, const std::string& path) {
  const Datatype type(H5Dget_type(dataset.get()), "look at", path);
  const auto element_type = element_type_in(type);
  if (!element_type)
    refuse(path, "another type", "float32, float64, int32, int64, uint64 or uint8");
  return *element_type;
}

StoredShape read_shape(const Dataspace& space, const std::string& path) {
  const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  if (kind == H5S_SCALAR) return {};
  if (kind != H5S_SIMPLE) refuse(path, "no shape", "a scalar or an array");
  const int rank = require(H5Sget_simple_extent_ndims(space.get()), "count axes");
  if (static_cast<std::size_t>(rank) > max_stored_rank) {
    refuse(path, fmt::format("{} axes", rank), fmt::format("at most {}", max_stored_rank));
  }
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  require(H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr), "read a shape");
  return {sizes.begin(), sizes.end()};
}

std::uint64_t read_digest(const Object& dataset, const H5O_info_t& info, const std::string& path) {
  if (info.num_attrs != 1) {
    refuse(path, fmt::format("{} attributes", info.num_attrs), "one, the digest");
  }
  const Attribute attribute(H5Aopen(dataset.get(), digest_attribute, H5P_DEFAULT),
                            "open the digest of", path);
  const Datatype type(H5Aget_type(attribute.get()), "look at a digest");
  const Dataspace space(H5Aget_space(attribute.get()), "look at a digest");
  if (element_type_in(type) != ElementType::uint64 ||
      H5Sget_simple_extent_type(space.get()) != H5S_SCALAR) {
    refuse(path, "a digest of another type", "a scalar uint64");
  }
  std::uint64_t digest = 0;
  require(H5Aread(attribute.get(), H5T_STD_U64LE, &digest), "read a digest");
  return digest;
}

void Inventory::visit_dataset(const Object& dataset, const H5O_info_t& info,
                              const std::string& path) {
  require_plain_storage(dataset, path);
  const Dataspace space(H5Dget_space(dataset.get()), "look at", path);
  ArrayEntry entry{.path = path,
                   .type = read_type(dataset, path),
                   .shape = read_shape(space, path),
                   .size = H5Dget_storage_size(dataset.get()),
                   .digest = read_digest(dataset, info, path)};
  const auto expected = stored_byte_count(entry.type, entry.shape);
  if (entry.size != expected) {
    refuse(path, fmt::format("{} bytes stored", entry.size),
           fmt::format("those of {} {}", element_type_name(entry.type), to_string(entry.shape)));
  }
  if (entry.size > 0) entry.offset = H5Dget_offset(dataset.get());
  entries_.push_back(std::move(entry));
}

}  // namespace

std::vector<ArrayEntry> list_arrays(std::span<const std::byte> file, std::size_t max_objects) {
  const Session session;
  std::vector<ArrayEntry> entries = Inventory(open_image(file), max_objects).take();
  std::ranges::sort(entries, {}, &ArrayEntry::path);
  return entries;
}

}  // namespace tapestry::hdf5
