// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/hdf5.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

namespace tapestry::hdf5 {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

void require_memory(std::size_t bytes) { ::operator delete(::operator new(bytes)); }

/// The innermost reason on HDF5's error stack.
struct Reason {
  std::string text;
  bool no_memory = false;
};

/// Called for each entry of the stack, innermost first; returning 1 ends the iteration.
herr_t keep_first_reason(unsigned /*level*/, const H5E_error2_t* entry, void* reason) {
  auto& kept = *static_cast<Reason*>(reason);
  kept.text = entry->desc != nullptr ? entry->desc : "";
  kept.no_memory = entry->maj_num == H5E_RESOURCE;
  return 1;
}

/// An open file; libhdf5 accesses it through the first member.
struct DriverFile {
  H5FD_t public_part{};
  VirtualFile* file = nullptr;
};

VirtualFile& file_of(const H5FD_t* opened) {
  return *reinterpret_cast<const DriverFile*>(opened)->file;
}

}  // namespace

/// The callbacks of the file driver. libhdf5 is C code, so they must not throw.
struct Driver {
  static H5FD_t* open(const char* /*name*/, unsigned /*flags*/, hid_t access,
                      haddr_t /*max_address*/) {
    const void* info = H5Pget_driver_info(access);
    auto* opened = info == nullptr ? nullptr : new (std::nothrow) DriverFile;
    if (opened == nullptr) return nullptr;
    opened->file = *static_cast<VirtualFile* const*>(info);
    return &opened->public_part;
  }

  static herr_t close(H5FD_t* opened) {
    delete reinterpret_cast<DriverFile*>(opened);
    return 0;
  }

  static haddr_t get_allocated(const H5FD_t* opened, H5FD_mem_t /*type*/) {
    return file_of(opened).allocated_;
  }

  static herr_t set_allocated(H5FD_t* opened, H5FD_mem_t /*type*/, haddr_t end) {
    file_of(opened).allocated_ = end;
    return 0;
  }

  static haddr_t size(const H5FD_t* opened, H5FD_mem_t /*type*/) { return file_of(opened).size(); }

  static herr_t read(H5FD_t* opened, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t offset,
                     std::size_t size, void* bytes) {
    VirtualFile& file = file_of(opened);
    return attempt(file, [&] { file.read(offset, {static_cast<std::byte*>(bytes), size}); });
  }

  static herr_t write(H5FD_t* opened, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t offset,
                      std::size_t size, const void* bytes) {
    VirtualFile& file = file_of(opened);
    return attempt(file, [&] { file.write(offset, {static_cast<const std::byte*>(bytes), size}); });
  }

  template <class Action>
  static herr_t attempt(VirtualFile& file, const Action& act) {
    try {
      act();
      return 0;
    } catch (...) {
      if (!file.error_) file.error_ = std::current_exception();
      return -1;
    }
  }

  static H5FD_class_t description() {
    H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION  // HDF5 1.14
    driver.version = H5FD_CLASS_VERSION;
    driver.value = H5_VFD_RESERVED;  // the first value for drivers that are not registered
#endif
    driver.name = "tapestry";
    driver.maxaddr = HADDR_MAX;
    driver.fc_degree = H5F_CLOSE_STRONG;
    driver.fapl_size = sizeof(VirtualFile*);
    driver.open = open;
    driver.close = close;
    driver.get_eoa = get_allocated;
    driver.set_eoa = set_allocated;
    driver.get_eof = size;
    driver.read = read;
    driver.write = write;
    return driver;
  }
};

void fail(std::string_view action, std::string_view object) {
  Reason reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first_reason, &reason);
  if (reason.no_memory) throw std::bad_alloc();
  const std::string_view space = object.empty() ? "" : " ";
  throw Error(fmt::format("HDF5 could not {}{}{}: {}", action, space, object, reason.text));
}

void reject(std::string_view path, std::string_view found, std::string_view expected) {
  throw Error(fmt::format("{}: found {}, expected {}", path, found, expected));
}

Session::Session(std::size_t objects) : lock_(library_mutex()) {
  constexpr std::size_t library_bytes = std::size_t{4} << 20, object_bytes = 4096;
  require_memory(library_bytes + objects * object_bytes);
  require(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "silence its error messages");
  require(H5PLset_loading_state(0), "turn its plugins off");
  if (require(H5Lis_registered(H5L_TYPE_EXTERNAL), "look for external links") > 0) {
    require(H5Lunregister(H5L_TYPE_EXTERNAL), "turn external links off");
  }
}

PropertyList VirtualFile::access() {
  static const H5FD_class_t description = Driver::description();
  const Handle<H5FDunregister> driver(H5FDregister(&description), "use a file driver");
  PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "prepare to open");
  VirtualFile* const self = this;
  require(H5Pset_driver(access.get(), driver.get(), &self), "use a file driver");
  // Arrays aligned to 8 bytes can be used without a copy.
  require(H5Pset_alignment(access.get(), 1, 8), "align arrays");
  return access;
}

File VirtualFile::open() {
  return {H5Fopen("tapestry", H5F_ACC_RDONLY, access().get()), "open the file"};
}

File VirtualFile::create(const PropertyList& creation) {
  return {H5Fcreate("tapestry", H5F_ACC_TRUNC, creation.get(), access().get()), "create the file"};
}

void VirtualFile::write(std::uint64_t /*offset*/, std::span<const std::byte> /*bytes*/) {
  throw std::logic_error("hdf5::VirtualFile: the file is read-only");
}

void BytesFile::read(std::uint64_t offset, std::span<std::byte> bytes) {
  const auto there = bytes_.subspan(std::min<std::uint64_t>(offset, bytes_.size()));
  const auto end =
      std::ranges::copy(there.first(std::min(there.size(), bytes.size())), bytes.begin()).out;
  std::fill(end, bytes.end(), std::byte{0});
}

ArrayShape read_shape(const Dataspace& space, const std::string& path) {
  const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  if (kind == H5S_SCALAR) return {};
  if (kind != H5S_SIMPLE) reject(path, "no shape", "a scalar or an array");
  const int rank = require(H5Sget_simple_extent_ndims(space.get()), "count axes");
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  require(H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr), "read a shape");
  return {sizes.begin(), sizes.end()};
}

}  // namespace tapestry::hdf5
