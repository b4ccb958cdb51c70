#include "train/storage/hdf5_handle.h"

#include <fmt/format.h>

#include <new>
#include <vector>

namespace tapestry::hdf5 {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Memory for the tables and caches of the library.
constexpr std::size_t library_bytes = std::size_t{4} << 20;

void require_memory(std::size_t bytes) { ::operator delete(::operator new(bytes)); }

/// Called for each entry of HDF5's error stack, innermost first; returning 1 ends the iteration.
herr_t keep_first_reason(unsigned /*level*/, const H5E_error2_t* entry, void* reason) {
  *static_cast<std::string*>(reason) = entry->desc != nullptr ? entry->desc : "";
  return 1;
}

// Callbacks that let HDF5 open a file image without copying it: requests for memory and copies
// return the original image. The file is opened read-only.

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

}  // namespace

void fail(std::string_view action, std::string_view object) {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first_reason, &reason);
  const std::string_view space = object.empty() ? "" : " ";
  throw Error(fmt::format("HDF5 could not {}{}{}: {}", action, space, object, reason));
}

void refuse(std::string_view path, std::string_view found, std::string_view expected) {
  throw Error(fmt::format("{}: found {}, expected {}", path, found, expected));
}

hid_t file_type(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return H5T_IEEE_F32LE;
    case ElementType::float64:
      return H5T_IEEE_F64LE;
    case ElementType::int32:
      return H5T_STD_I32LE;
    case ElementType::int64:
      return H5T_STD_I64LE;
    case ElementType::uint64:
      return H5T_STD_U64LE;
    case ElementType::uint8:
      return H5T_STD_U8LE;
  }
  throw Error("not an element type");
}

Session::Session() : lock_(library_mutex()) {
  require_memory(library_bytes);
  require(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "silence its error messages");
  require(H5PLset_loading_state(0), "turn its plugins off");
  if (require(H5Lis_registered(H5L_TYPE_EXTERNAL), "look for external links") > 0) {
    require(H5Lunregister(H5L_TYPE_EXTERNAL), "turn external links off");
  }
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

ArrayShape read_shape(const Dataspace& space, const std::string& path) {
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

}  // namespace tapestry::hdf5
