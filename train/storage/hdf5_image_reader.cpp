#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "train/storage/hdf5_dataset.h"
#include "train/storage/hdf5_handle.h"
#include "train/storage/hdf5_image.h"

namespace tapestry::hdf5 {
namespace {

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
  entries_.push_back(describe_dataset(dataset, path));
  entries_.back().digest = read_digest(dataset, info, path);
}

}  // namespace

std::vector<ArrayEntry> list_arrays(std::span<const std::byte> file, std::size_t max_objects) {
  const Session session;
  std::vector<ArrayEntry> entries = Inventory(open_image(file), max_objects).take();
  std::ranges::sort(entries, {}, &ArrayEntry::path);
  return entries;
}

}  // namespace tapestry::hdf5
