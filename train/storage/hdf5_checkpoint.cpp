#include "train/storage/hdf5_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "train/storage/hdf5_attributes.h"
#include "train/storage/hdf5_encoder.h"
#include "train/storage/hdf5_handle.h"

namespace tapestry::hdf5 {
namespace {

// ---- Reading: datasets.

/// The element type for an HDF5 type; nullopt if there is none.
std::optional<ElementType> element_type_in(const Datatype& type) {
  constexpr std::array types{ElementType::float32, ElementType::float64, ElementType::int32,
                             ElementType::int64,   ElementType::uint64,  ElementType::uint8};
  const auto match = std::ranges::find_if(types, [&](ElementType candidate) {
    return require(H5Tequal(type.get(), file_type(candidate)), "compare types") > 0;
  });
  return match != types.end() ? std::optional(*match) : std::nullopt;
}

/// Must be called first: reading the shape of a virtual dataset opens other files.
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

ElementType read_type(const Object& dataset, const std::string& path) {
  const Datatype type(H5Dget_type(dataset.get()), "look at", path);
  const auto element_type = element_type_in(type);
  if (!element_type)
    refuse(path, "another type", "float32, float64, int32, int64, uint64 or uint8");
  return *element_type;
}

/// Element type, shape and position of a dataset, without a digest. Does not read its elements.
///
/// throws  Error unless the dataset is contiguous in this file, without filters, of a known element
///         type, with at most max_stored_rank axes and as many bytes as its shape needs.
ArrayEntry describe_dataset(const Object& dataset, const std::string& path) {
  require_plain_storage(dataset, path);
  const Dataspace space(H5Dget_space(dataset.get()), "look at", path);
  ArrayEntry entry{.path = path,
                   .type = read_type(dataset, path),
                   .shape = read_shape(space, path),
                   .size = H5Dget_storage_size(dataset.get())};
  const auto expected = byte_count(entry.shape, element_size(entry.type));
  if (entry.size != expected) {
    refuse(path, fmt::format("{} bytes stored", entry.size),
           fmt::format("those of {} {}", element_type_name(entry.type), to_string(entry.shape)));
  }
  if (entry.size > 0) entry.offset = H5Dget_offset(dataset.get());
  if (entry.offset == HADDR_UNDEF) refuse(path, "no place in the file", "one");
  return entry;
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

// ---- Reading: links and objects.

struct Link {
  std::string name;
  H5L_type_t type;
  haddr_t address;  ///< of the object, for a hard link
};

struct Links {
  std::vector<Link> found;
  std::size_t limit = 0;

  void add(const char* name, const H5L_info_t& info) {
    if (found.size() >= limit) throw Error("more links than are allowed");
    found.push_back({name, info.type, info.type == H5L_TYPE_HARD ? info.u.address : HADDR_UNDEF});
  }
};

/// Called by HDF5 for each link of a group; must not throw, since HDF5 is written in C.
herr_t collect_link(hid_t /*group*/, const char* name, const H5L_info_t* info, void* links) try {
  static_cast<Links*>(links)->add(name, *info);
  return 0;
} catch (...) {
  return -1;
}

/// Walks the groups of a file and lists its datasets; refuses everything that a Snapshot cannot
/// store.
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

  /// Refuses an object that is reached a second time, so that the walk ends.
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
    if (info.num_attrs != 0 && !path.empty()) refuse(path, "attributes of a group", "none");
    Links links{.found = {}, .limit = max_objects_ - seen_.size()};
    require(H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_link, &links),
            fmt::format("list the group '{}'", path));
    for (const auto& [name, type, address] : links.found) {
      if (!is_path_component(name)) refuse(path, fmt::format("the name '{}'", name), "plain ASCII");
      const std::string inside = path.empty() ? name : path + '/' + name;
      if (type != H5L_TYPE_HARD) refuse(inside, "a soft or external link", "a hard link");
      // By its address: by its name, the group would be searched again.
      const Object object(H5Oopen_by_addr(group.get(), address), "open", inside);
      visit_object(object, inside, depth + 1);
    }
  }

  void visit_dataset(const Object& dataset, const H5O_info_t& info, const std::string& path) {
    entries_.push_back(describe_dataset(dataset, path));
    entries_.back().digest = read_digest(dataset, info, path);
  }

  std::size_t max_objects_;
  std::vector<ArrayEntry> entries_;
  std::set<haddr_t> seen_;
};

}  // namespace

std::vector<ArrayEntry> list_arrays(std::span<const std::byte> file, RootAttributes attributes,
                                    std::size_t max_objects) {
  const Session session;
  const File opened = open_image(file);
  std::vector<ArrayEntry> entries = Inventory(opened, max_objects).take();
  std::ranges::sort(entries, {}, &ArrayEntry::path);
  if (attributes == RootAttributes::required) {
    require_attributes(opened, entries, file);
  } else if (count_attributes(opened) != 0) {
    refuse("/", "attributes of the root group", "none");
  }
  return entries;
}

}  // namespace tapestry::hdf5
