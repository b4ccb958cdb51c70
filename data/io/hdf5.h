// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <hdf5.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "data/io/array_shape.h"

/// Helpers for libhdf5: exceptions for errors, handles that close ids, and files in memory or other
/// storage.
namespace tapestry::hdf5 {

/// Thrown if a call of libhdf5 fails or a file has invalid content. Readers and writers catch it
/// and throw an error that names the file.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Error with the innermost reason on HDF5's error stack: "could not `action` `object`:
/// reason"; std::bad_alloc if libhdf5 could not allocate memory.
[[noreturn]] void fail(std::string_view action, std::string_view object = {});

/// Returns the result of a call; throws Error if it is negative, which indicates failure.
template <typename Result>
Result require(Result result, std::string_view action, std::string_view object = {}) {
  if (result < 0) fail(action, object);
  return result;
}

/// throws  Error: "`path`: found ..., expected ..."
[[noreturn]] void reject(std::string_view path, std::string_view found, std::string_view expected);

/// Locks HDF5 for one thread at a time, because Debian's libhdf5 is not thread-safe. An object of
/// this class must exist during every use of HDF5.
///
/// The constructor sets process-wide options of the library: it prints no error messages, loads no
/// plug-ins and follows no external links.
class Session {
 public:
  /// First checks that there is enough memory for the tables and caches of the library and for
  /// `objects` objects, because libhdf5 1.10 crashes or stays unusable after a failed allocation.
  ///
  /// throws  std::bad_alloc if there is not enough memory; Error
  explicit Session(std::size_t objects = 0);

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

  /// Closes the id; throws Error on failure, since HDF5 may report failed writes only when the id
  /// is closed.
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
using PropertyList = Handle<H5Pclose>;

/// A file for libhdf5 whose bytes a derived class provides, through a virtual file driver
/// (H5FD_class_t). Must outlive the File.
class VirtualFile {
 public:
  VirtualFile() = default;
  VirtualFile(const VirtualFile&) = delete;
  VirtualFile& operator=(const VirtualFile&) = delete;
  virtual ~VirtualFile() = default;

  /// Opens the file for reading. throws Error.
  File open();

  /// Creates the file with creation properties of H5P_FILE_CREATE. throws Error.
  File create(const PropertyList& creation);

  /// Rethrows the first exception of read() or write(), if they threw one. Call it if libhdf5
  /// reports a failure, since libhdf5 does not report the reason, and also if it reports success.
  void rethrow_error() const {
    if (error_) std::rethrow_exception(error_);
  }

  /// Size in bytes of the space that libhdf5 has allocated; final once the file is closed.
  std::uint64_t allocated() const { return allocated_; }

 protected:
  /// Size of the file in bytes.
  virtual std::uint64_t size() const = 0;
  /// Fills `bytes` from `offset`, with zeros after the end of the file.
  virtual void read(std::uint64_t offset, std::span<std::byte> bytes) = 0;
  /// Throws std::logic_error unless overridden: the file is read-only.
  virtual void write(std::uint64_t offset, std::span<const std::byte> bytes);

 private:
  friend struct Driver;

  PropertyList access();

  std::uint64_t allocated_ = 0;
  std::exception_ptr error_;
};

/// A read-only HDF5 file in memory. `bytes` must outlive this object.
class BytesFile : public VirtualFile {
 public:
  explicit BytesFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

 protected:
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> bytes) override;

 private:
  std::span<const std::byte> bytes_;
};

/// The shape of a dataspace.
///
/// throws  Error, naming the array by its path, if the dataspace has no shape.
ArrayShape read_shape(const Dataspace& space, const std::string& path);

}  // namespace tapestry::hdf5
