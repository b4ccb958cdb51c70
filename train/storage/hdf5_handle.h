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

/// A call of libhdf5 failed, or a file holds what it must not. Stays inside the HDF5 files; they
/// turn it into an error that names the file.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Error with HDF5's own innermost reason: "could not `action` `object`: reason".
[[noreturn]] void fail(std::string_view action, std::string_view object = {});

/// Passes on the result of a call that returns a negative number on failure.
template <typename Result>
Result require(Result result, std::string_view action, std::string_view object = {}) {
  if (result < 0) fail(action, object);
  return result;
}

/// throws  Error: "`path`: found ..., expected ..."
[[noreturn]] void refuse(std::string_view path, std::string_view found, std::string_view expected);

/// The type that elements have in a file.
hid_t file_type(ElementType type);

/// What files in memory are called. HDF5 looks for it on the disk, where it cannot exist.
inline constexpr const char* name_in_memory = "/dev/null/tapestry-checkpoint";

/// Held during any use of HDF5: Debian's serial libhdf5 must run on one thread at a time.
///
/// Opening a session sets the state of the library for the whole process: nothing is printed on
/// errors, no plugins are loaded, external links are not followed.
class Session {
 public:
  /// Where malloc fails, libhdf5 1.10 crashes, corrupts the heap or fails ever after; so it is not
  /// entered without the memory it will need.
  ///
  /// bytes   of memory that the work will take, besides what the library takes for itself
  /// throws  std::bad_alloc if there is not so much; Error
  explicit Session(std::size_t bytes = 0);

 private:
  std::lock_guard<std::mutex> lock_;
};

/// Owns an HDF5 id and closes it exactly once: closing again after a failure crashes libhdf5.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  /// `id` is the result of the call that made it; a negative one throws Error with the action.
  Handle(hid_t id, std::string_view action, std::string_view object = {})
      : id_(require(id, action, object)) {}
  /// Where a text cannot be made for want of memory, an id made before it would stay open, and with
  /// it the file.
  template <std::same_as<std::string> Text>
  Handle(hid_t id, Text&& action) = delete;
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) Close(id_);
  }

  hid_t get() const { return id_; }

  /// Closes and throws Error if that failed: HDF5 may only now say that earlier writes did.
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

/// Opens the bytes of a file, which are not copied and have to stay, for reading. Nothing of it
/// need be trusted, but libhdf5 1.10 may crash.
File open_image(std::span<const std::byte> image);

/// throws  Error, naming the array by its path, if it has no shape or more than max_stored_rank
/// axes
StoredShape read_shape(const Dataspace& space, const std::string& path);

}  // namespace tapestry::hdf5
