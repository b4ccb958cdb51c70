#include "train/storage/hdf5_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tapestry::hdf5 {
namespace {

// The image as a file, without a copy. HDF5 asks these functions for memory and copies; they
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

}  // namespace

void refuse(std::string_view path, std::string_view found, std::string_view expected) {
  throw Error(fmt::format("{}: found {}, expected {}", path, found, expected));
}

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

std::optional<ElementType> element_type_in(const Datatype& type) {
  constexpr std::array types{ElementType::float32, ElementType::float64, ElementType::int32,
                             ElementType::int64,   ElementType::uint64,  ElementType::uint8};
  const auto match = std::ranges::find_if(types, [&](ElementType candidate) {
    return require(H5Tequal(type.get(), file_type(candidate)), "compare types") > 0;
  });
  return match != types.end() ? std::optional(*match) : std::nullopt;
}

ArrayEntry describe_dataset(const Object& dataset, const std::string& path) {
  require_plain_storage(dataset, path);
  const Dataspace space(H5Dget_space(dataset.get()), "look at", path);
  ArrayEntry entry{.path = path,
                   .type = read_type(dataset, path),
                   .shape = read_shape(space, path),
                   .size = H5Dget_storage_size(dataset.get())};
  const auto expected = stored_byte_count(entry.type, entry.shape);
  if (entry.size != expected) {
    refuse(path, fmt::format("{} bytes stored", entry.size),
           fmt::format("those of {} {}", element_type_name(entry.type), to_string(entry.shape)));
  }
  if (entry.size > 0) entry.offset = H5Dget_offset(dataset.get());
  if (entry.offset == HADDR_UNDEF) refuse(path, "no place in the file", "one");
  return entry;
}

}  // namespace tapestry::hdf5
