// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "data/io/hdf5.h"

/// HDF5 files in memory, made with plain calls of libhdf5.
namespace tapestry::hdf5 {

/// The bytes of a file that `fill` makes with plain HDF5 calls, after a user block of zeros.
inline std::vector<std::byte> file_with(const std::function<void(hid_t file)>& fill,
                                        std::size_t user_block_size = 0) {
  H5close();  // restores the settings that a Session changed
  const PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "create");
  const PropertyList creation(H5Pcreate(H5P_FILE_CREATE), "create");
  require(H5Pset_fapl_core(access.get(), 4096, 0), "keep off the disk");
  require(H5Pset_userblock(creation.get(), user_block_size), "set the user block");
  File file(H5Fcreate("file in memory", H5F_ACC_TRUNC, creation.get(), access.get()), "create");
  fill(file.get());
  require(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "flush");
  const auto size = static_cast<std::size_t>(
      require(H5Fget_file_image(file.get(), nullptr, 0), "measure the file"));
  std::vector<std::byte> bytes(user_block_size + size);
  require(H5Fget_file_image(file.get(), bytes.data() + user_block_size, size), "copy the file");
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

/// Options of a dataset whose space is allocated at creation, even if no data are written.
inline PropertyList allocated_early() {
  PropertyList options = dataset_options();
  H5Pset_alloc_time(options.get(), H5D_ALLOC_TIME_EARLY);
  return options;
}

}  // namespace tapestry::hdf5
