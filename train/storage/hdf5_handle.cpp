#include "train/storage/hdf5_handle.h"

#include <fmt/format.h>

#include <new>

namespace tapestry::hdf5 {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// What the library takes for itself: its tables and caches.
constexpr std::size_t library_bytes = std::size_t{4} << 20;

void require_memory(std::size_t bytes) { ::operator delete(::operator new(bytes)); }

/// Called for each entry of HDF5's error stack, innermost first; a result of 1 ends the walk.
herr_t keep_first_reason(unsigned /*level*/, const H5E_error2_t* entry, void* reason) {
  *static_cast<std::string*>(reason) = entry->desc != nullptr ? entry->desc : "";
  return 1;
}

}  // namespace

void fail(std::string_view action, std::string_view object) {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first_reason, &reason);
  const std::string_view space = object.empty() ? "" : " ";
  throw Error(fmt::format("HDF5 could not {}{}{}: {}", action, space, object, reason));
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

Session::Session(std::size_t bytes) : lock_(library_mutex()) {
  require_memory(library_bytes + bytes);
  require(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "silence its error messages");
  require(H5PLset_loading_state(0), "turn its plugins off");
  if (require(H5Lis_registered(H5L_TYPE_EXTERNAL), "look for external links") > 0) {
    require(H5Lunregister(H5L_TYPE_EXTERNAL), "turn external links off");
  }
}

}  // namespace tapestry::hdf5
