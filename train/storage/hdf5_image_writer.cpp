#include "train/storage/hdf5_handle.h"
#include "train/storage/hdf5_image.h"

namespace tapestry::hdf5 {
namespace {

/// Room for the names and headers of a small file; the file in memory grows in steps of this and
/// an eighth of its data.
constexpr std::size_t smallest_growth = 64 * 1024;

std::size_t growth(std::uint64_t data_size) { return smallest_growth + data_size / 8; }

/// A new file without timestamps, which would make the bytes of equal files differ.
File create_file(std::uint64_t data_size, std::size_t user_block_size) {
  const PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "prepare a file in memory");
  const PropertyList creation(H5Pcreate(H5P_FILE_CREATE), "prepare a file in memory");
  require(H5Pset_fapl_core(access.get(), growth(data_size), 0), "keep off the disk");
  require(H5Pset_userblock(creation.get(), user_block_size), "set the user block");
  require(H5Pset_obj_track_times(creation.get(), false), "leave out timestamps");
  return {H5Fcreate(name_in_memory, H5F_ACC_TRUNC, creation.get(), access.get()),
          "create a file in memory"};
}

Dataspace create_dataspace(const StoredShape& shape) {
  if (shape.empty()) return {H5Screate(H5S_SCALAR), "describe a scalar"};
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  return {H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
          "describe a shape"};
}

Dataset create_dataset(const File& file, const std::string& path, const StoredArray& array) {
  const PropertyList link(H5Pcreate(H5P_LINK_CREATE), "prepare a link");
  require(H5Pset_create_intermediate_group(link.get(), 1), "prepare a link");
  const PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "prepare a dataset");
  require(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), "make a dataset contiguous");
  require(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "allocate a dataset early");
  require(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "leave a dataset unfilled");
  require(H5Pset_obj_track_times(creation.get(), false), "leave out timestamps");
  const Dataspace space = create_dataspace(array.shape);
  return {H5Dcreate2(file.get(), path.c_str(), file_type(array.type), space.get(), link.get(),
                     creation.get(), H5P_DEFAULT),
          "create", path};
}

void write_digest(const Dataset& dataset, const StoredArray& array) {
  const std::uint64_t digest = array_digest(array.bytes);
  const Dataspace scalar(H5Screate(H5S_SCALAR), "describe a scalar");
  Attribute attribute(H5Acreate2(dataset.get(), digest_attribute, H5T_STD_U64LE, scalar.get(),
                                 H5P_DEFAULT, H5P_DEFAULT),
                      "create a digest");
  require(H5Awrite(attribute.get(), H5T_STD_U64LE, &digest), "write a digest");
  attribute.close("close a digest");
}

void write_array(const File& file, const std::string& path, const StoredArray& array) {
  Dataset dataset = create_dataset(file, path, array);
  if (!array.bytes.empty()) {
    require(H5Dwrite(dataset.get(), file_type(array.type), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                     array.bytes.data()),
            "write", path);
  }
  write_digest(dataset, array);
  dataset.close("close a dataset");
}

/// HDF5 gives the file without its user block, but with addresses that allow for it.
std::vector<std::byte> image_of(const File& file, std::size_t user_block_size) {
  const auto size = static_cast<std::size_t>(
      require(H5Fget_file_image(file.get(), nullptr, 0), "measure the file in memory"));
  std::vector<std::byte> image(user_block_size + size);
  const auto copied = static_cast<std::size_t>(require(
      H5Fget_file_image(file.get(), image.data() + user_block_size, size), "copy the file"));
  if (copied != size) throw Error("HDF5 copied a part of the file in memory");
  return image;
}

}  // namespace

std::vector<std::byte> write_image(const Snapshot& snapshot, std::size_t user_block_size) {
  const std::uint64_t data_size = snapshot.byte_size();
  const Session session(2 * data_size + growth(data_size));  // the file in memory and its copy
  File file = create_file(data_size, user_block_size);
  for (const auto& [path, array] : snapshot) write_array(file, path, array);
  require(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "flush the file in memory");
  std::vector<std::byte> image = image_of(file, user_block_size);
  file.close("close the file in memory");
  return image;
}

}  // namespace tapestry::hdf5
