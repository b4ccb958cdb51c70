#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "data/readers/images.h"
#include "tests/data/refusal.h"
#include "tests/support/hdf5_files.h"
#include "tests/support/temporary_folder.h"

/// HDF5 files with the datasets `images` and `labels`, stored as h5py does.
namespace tapestry::test {

using Shape = std::vector<hsize_t>;
using Fill = std::function<void(hid_t file)>;

template <class T>
hid_t type_of() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return H5T_NATIVE_UINT64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_NATIVE_UINT8;
}

/// Writes a dataset.
template <class T>
void put(hid_t file, const char* name, const Shape& shape, const std::vector<T>& values,
         const hdf5::PropertyList& options = hdf5::dataset_options()) {
  const hdf5::Dataset dataset = hdf5::create(file, name, type_of<T>(), shape, options);
  REQUIRE(H5Dwrite(dataset.get(), type_of<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
}

/// Three images of 1 x 2 pixels in two classes.
inline void put_three(hid_t file) {
  put<std::uint8_t>(file, "images", {3, 1, 2}, {0, 255, 51, 102, 153, 204});
  put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
}

/// A folder with a file of images, and options that read it.
struct ArrayFolder {
  ArrayFolder() {
    options.train_images = (folder.path() / "train.h5").string();
    options.image_height = 1;
    options.image_width = 2;
  }

  void write(const Fill& fill) const { write_bytes(hdf5::file_with(fill)); }
  void write_bytes(const std::vector<std::byte>& bytes) const {
    std::ofstream file(options.train_images, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  Corpus load() const { return load_images(options, held_out, "."); }

  /// The error message about such a file, without its name.
  std::string message(const Fill& fill) const {
    write(fill);
    const std::string text = refusal([this] { load(); });
    REQUIRE(text.starts_with(options.train_images + ": "));
    return text.substr(options.train_images.size() + 2);
  }

  TemporaryFolder folder;
  ImageOptions options;
  HeldOutImages held_out{.validation = 0, .test = 0};
};

/// A type of strings.
struct TextType {
  std::size_t size = H5T_VARIABLE;
  H5T_str_t padding = H5T_STR_NULLPAD;
  H5T_cset_t characters = H5T_CSET_ASCII;

  hdf5::Datatype make() const {
    hdf5::Datatype type(H5Tcopy(H5T_C_S1), "copy");
    REQUIRE(H5Tset_size(type.get(), size) >= 0);
    if (size != H5T_VARIABLE) REQUIRE(H5Tset_strpad(type.get(), padding) >= 0);
    REQUIRE(H5Tset_cset(type.get(), characters) >= 0);
    return type;
  }
};

/// The options of a dataset that h5py makes with chunks=... and, with `gzip`, compression="gzip".
inline hdf5::PropertyList chunked(const Shape& chunk, bool gzip = true) {
  hdf5::PropertyList options = hdf5::dataset_options();
  REQUIRE(H5Pset_chunk(options.get(), static_cast<int>(chunk.size()), chunk.data()) >= 0);
  if (gzip) {
    REQUIRE(H5Pset_shuffle(options.get()) >= 0);
    REQUIRE(H5Pset_deflate(options.get(), 4) >= 0);
    REQUIRE(H5Pset_fletcher32(options.get()) >= 0);
  }
  return options;
}

}  // namespace tapestry::test
