#pragma once

#include <hdf5.h>

#include <concepts>
#include <cstddef>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "train/storage/snapshot.h"

namespace tapestry::hdf5 {

/// A call of libhdf5 failed, or a file has invalid content. Caught in the hdf5_*.cpp files, which
/// throw an error that names the file.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Error with the innermost reason on HDF5's error stack: "could not `action` `object`:
/// reason".
[[noreturn]] void fail(std::string_view action, std::string_view object = {});

/// Returns the result of a call; throws Error if it is negative, which indicates failure.
template <typename Result>
Result require(Result result, std::string_view action, std::string_view object = {}) {
  if (result < 0) fail(action, object);
  return result;
}

/// throws  Error: "`path`: found ..., expected ..."
[[noreturn]] void refuse(std::string_view path, std::string_view found, std::string_view expected);

/// The HDF5 type of the elements in a file.
hid_t file_type(ElementType type);

/// The name of files in memory. HDF5 looks it up on the disk, where it cannot exist.
inline constexpr const char* name_in_memory = "/dev/null/tapestry-checkpoint";

/// Must exist during any use of HDF5: Debian's serial libhdf5 allows only one thread at a time.
///
/// The constructor sets process-wide options of the library: no error messages are printed, no
/// plug-ins are loaded, external links are not followed.
class Session {
 public:
  /// Checks first that the memory which the library needs is available, since libhdf5 1.10 crashes,
  /// corrupts the heap or stays unusable after a failed allocation.
  ///
  /// throws  std::bad_alloc if there is less; Error
  Session();

 private:
  std::lock_guard<std::mutex> lock_;
};

/// Owns an HDF5 id and closes it exactly once: closing it again after a failure crashes libhdf5.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  /// `id` is the result of the call that created it; throws Error with the action if it is
  /// negative.
  Handle(hid_t id, std::string_view action, std::string_view object = {})
      : id_(require(id, action, object)) {}
  /// Deleted: if constructing a std::string argument threw std::bad_alloc, the id would not be
  /// closed, and the file would stay open.
  template <std::same_as<std::string> Text>
  Handle(hid_t id, Text&& action) = delete;
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) Close(id_);
  }

  hid_t get() const { return id_; }

  /// Closes the id; throws Error on failure, since HDF5 may report failed writes only now.
  void close(std::string_view action) {
    require(Close(std::exchange(id_, H5I_INVALID_HID)), action);
  }

 private:
  hid_t id_;
};

using File = Handle<H5Fclose>;
using Object = Handle<H5Oclose>;
using Dataset = Handle<H5Dclose>;
using Dataspace = Handle<H5Sclose>;
using Datatype = Handle<H5Tclose>;
using Attribute = Handle<H5Aclose>;
using PropertyList = Handle<H5Pclose>;

/// Opens the bytes of a file read-only, without copying them; they must outlive the File. The bytes
/// may be untrusted, but libhdf5 1.10 may crash on them.
File open_image(std::span<const std::byte> image);

/// throws  Error, naming the array by its path, if it has no shape or more than max_stored_rank
/// axes
ArrayShape read_shape(const Dataspace& space, const std::string& path);

}  // namespace tapestry::hdf5
