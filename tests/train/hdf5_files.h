#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "train/storage/hdf5_encoder.h"
#include "train/storage/hdf5_handle.h"

/// HDF5 files in memory: of a snapshot, or with what a checkpoint must not have.
namespace tapestry::hdf5 {

/// The bytes of a file that `fill` makes with plain HDF5 calls, behind a user block of zeros.
inline std::vector<std::byte> file_with(const std::function<void(hid_t file)>& fill,
                                        std::size_t user_block_size = 0) {
  H5close();  // brings back what a Session turned off
  const PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "create");
  const PropertyList creation(H5Pcreate(H5P_FILE_CREATE), "create");
  require(H5Pset_fapl_core(access.get(), 4096, 0), "keep off the disk");
  require(H5Pset_userblock(creation.get(), user_block_size), "set the user block");
  File file(H5Fcreate(name_in_memory, H5F_ACC_TRUNC, creation.get(), access.get()), "create");
  fill(file.get());
  require(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "flush");
  const auto size = static_cast<std::size_t>(
      require(H5Fget_file_image(file.get(), nullptr, 0), "measure the file"));
  std::vector<std::byte> bytes(user_block_size + size);
  require(H5Fget_file_image(file.get(), bytes.data() + user_block_size, size), "copy the file");
  return bytes;
}

/// The bytes of the file that encode() makes of a snapshot, behind a user block of zeros.
inline std::vector<std::byte> image_of(const Snapshot& snapshot, std::size_t user_block_size) {
  const EncodedFile file = encode(snapshot, user_block_size);
  std::vector<std::byte> bytes(file.objects_offset);
  std::ranges::copy(file.superblock, bytes.begin() + static_cast<std::ptrdiff_t>(user_block_size));
  for (const ArrayEntry& entry : file.entries) {
    std::ranges::copy(snapshot.at(entry.path).bytes,
                      bytes.begin() + static_cast<std::ptrdiff_t>(entry.offset));
  }
  bytes.insert(bytes.end(), file.objects.begin(), file.objects.end());
  return bytes;
}

inline PropertyList dataset_options() { return {H5Pcreate(H5P_DATASET_CREATE), "create"}; }

inline Dataset create(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape,
                      const PropertyList& options = dataset_options()) {
  const Dataspace space(
      H5Screate_simple(static_cast<int>(shape.size()), shape.data(), shape.data()), "create");
  return {H5Dcreate2(file, name, type, space.get(), H5P_DEFAULT, options.get(), H5P_DEFAULT),
          "create"};
}

inline void add_digest(const Dataset& dataset, hid_t type = H5T_STD_U64LE,
                       const char* name = digest_attribute) {
  const Dataspace scalar(H5Screate(H5S_SCALAR), "create");
  const Attribute attribute(
      H5Acreate2(dataset.get(), name, type, scalar.get(), H5P_DEFAULT, H5P_DEFAULT), "create");
  const std::uint64_t digest = 7;
  H5Awrite(attribute.get(), H5T_STD_U64LE, &digest);
}

/// Options of a dataset that takes its room at once, as one that is written to does.
inline PropertyList allocated_early() {
  PropertyList options = dataset_options();
  H5Pset_alloc_time(options.get(), H5D_ALLOC_TIME_EARLY);
  return options;
}

/// An array as a checkpoint may hold it, but for the value of its digest.
inline void add_good_array(hid_t file, const char* name) {
  add_digest(create(file, name, H5T_IEEE_F32LE, {2, 3}, allocated_early()));
}

}  // namespace tapestry::hdf5
