// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/hdf5.h"
#include "data/io/utf8.h"
#include "data/readers/image_arrays.h"

namespace tapestry {
namespace {

using hdf5::reject;

constexpr std::size_t max_label_length = 1000;  // in bytes
constexpr const char* how_to_store =
    "write both with h5py, with gzip or without compression: h5py.File(path, \"w\").create_dataset("
    "\"images\", data=images, compression=\"gzip\"), and \"labels\" as integers or text";

/// A dataset whose storage has been checked.
struct Array {
  std::string name;
  hdf5::Object dataset;
  hdf5::Datatype type;
  hdf5::Dataspace space;
  ArrayShape shape;
};

/// The integer type of an enumeration, which h5py uses for booleans. Returns other types unchanged.
hdf5::Datatype element_type(const Array& array) {
  const bool named = H5Tget_class(array.type.get()) == H5T_ENUM;
  return {named ? H5Tget_super(array.type.get()) : H5Tcopy(array.type.get()), "read the type of",
          array.name};
}

bool is_unsigned(const hdf5::Datatype& type) { return H5Tget_sign(type.get()) == H5T_SGN_NONE; }

/// The name of a type in messages, such as "float32" or "text".
std::string type_name(const hdf5::Datatype& type) {
  const std::size_t bits = 8 * H5Tget_size(type.get());
  switch (H5Tget_class(type.get())) {
    case H5T_INTEGER:
      return fmt::format("{}int{}", is_unsigned(type) ? "u" : "", bits);
    case H5T_FLOAT:
      return fmt::format("float{}", bits);
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "structures";
    default:
      return "an unsupported type";
  }
}

// ---- Storage.

hdf5::Object open_dataset(const hdf5::File& file, const char* name) {
  if (hdf5::require(H5Lexists(file.get(), name, H5P_DEFAULT), "find", name) == 0) {
    reject(name, "nothing", "a dataset of that name");
  }
  H5L_info_t link{};
  hdf5::require(H5Lget_info(file.get(), name, &link, H5P_DEFAULT), "read the properties of", name);
  if (link.type != H5L_TYPE_HARD) reject(name, "a soft or external link", "a dataset");
  hdf5::Object object(H5Oopen(file.get(), name, H5P_DEFAULT), "open", name);
  if (H5Iget_type(object.get()) != H5I_DATASET) reject(name, "a group", "a dataset");
  return object;
}

/// Checks that a dataset is stored in its file, and returns its layout. Call this function before
/// reading the shape: for a virtual dataset, reading the shape opens other files.
///
/// creation  the properties that the dataset was created with
/// throws    Error
H5D_layout_t require_own_storage(const hdf5::PropertyList& creation, const std::string& path) {
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout == H5D_VIRTUAL) reject(path, "virtual storage", "storage in this file");
  if (H5Pget_external_count(creation.get()) != 0) {
    reject(path, "storage in other files", "storage in this file");
  }
  return layout;
}

/// Rejects filters that libhdf5 supports only through plug-ins.
void require_filters(const hdf5::PropertyList& creation, const char* name) {
  const int count = hdf5::require(H5Pget_nfilters(creation.get()), "count filters of", name);
  for (int i = 0; i < count; ++i) {
    std::array<char, 64> label{};
    std::size_t no_values = 0;
    const H5Z_filter_t id =
        hdf5::require(H5Pget_filter2(creation.get(), static_cast<unsigned>(i), nullptr, &no_values,
                                     nullptr, label.size() - 1, label.data(), nullptr),
                      "read the filters of", name);
    if (H5Zfilter_avail(id) > 0) continue;
    reject(name, fmt::format("the filter {} ({})", excerpt(label.data()), id),
           "gzip, shuffle or none");
  }
}

std::uint64_t element_count(const ArrayShape& shape) { return byte_count(shape, 1).value_or(0); }

/// The number of chunks needed for a shape. `chunk` is the shape of a chunk.
std::uint64_t count_chunks(const ArrayShape& shape, const std::vector<hsize_t>& chunk) {
  ArrayShape chunks;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const hsize_t extent = std::max<hsize_t>(chunk[axis], 1);
    chunks.push_back(shape[axis] / extent + (shape[axis] % extent == 0 ? 0 : 1));
  }
  return byte_count(chunks, 1).value_or(~std::uint64_t{0});
}

/// Rejects a dataset with missing chunks, which HDF5 would read as zeros.
void require_chunks(const Array& array, const hdf5::PropertyList& creation) {
  std::vector<hsize_t> chunk(array.shape.size());
  hdf5::require(H5Pget_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()),
                "read the chunks of", array.name);
  hsize_t found = 0;
  hdf5::require(H5Dget_num_chunks(array.dataset.get(), array.space.get(), &found),
                "count the chunks of", array.name);
  const std::uint64_t expected = count_chunks(array.shape, chunk);
  if (found != expected) {
    reject(array.name, fmt::format("{} chunks written", found),
           fmt::format("the {} of shape {}", expected, to_string(array.shape)));
  }
}

/// Checks that contiguous or compact storage contains all elements of an array.
void require_bytes(const Array& array, H5D_layout_t layout, std::size_t file_size) {
  const hsize_t size = H5Dget_storage_size(array.dataset.get());
  const bool by_reference = H5Tis_variable_str(array.type.get()) > 0;
  const auto expected = byte_count(array.shape, by_reference ? 1 : H5Tget_size(array.type.get()));
  if (by_reference ? size < expected : size != expected) {
    reject(array.name, fmt::format("{} bytes stored", size),
           fmt::format("the bytes of {} {}", type_name(array.type), to_string(array.shape)));
  }
  if (layout != H5D_CONTIGUOUS || size == 0) return;
  const haddr_t offset = H5Dget_offset(array.dataset.get());
  if (size > file_size || offset > file_size - size) {
    throw hdf5::Error(fmt::format("found the end of the file inside `{}`, expected {} bytes at {}",
                                  array.name, size, offset));
  }
}

Array open_array(const hdf5::File& file, std::size_t file_size, const char* name) {
  hdf5::Object dataset = open_dataset(file, name);
  const hdf5::PropertyList creation(H5Dget_create_plist(dataset.get()), "read the properties of",
                                    name);
  const H5D_layout_t layout = require_own_storage(creation, name);
  require_filters(creation, name);
  hdf5::Datatype type(H5Dget_type(dataset.get()), "read the type of", name);
  hdf5::Dataspace space(H5Dget_space(dataset.get()), "read the shape of", name);
  ArrayShape shape = hdf5::read_shape(space, name);
  Array array{.name = name,
              .dataset = std::move(dataset),
              .type = std::move(type),
              .space = std::move(space),
              .shape = std::move(shape)};
  if (layout == H5D_CHUNKED) {
    require_chunks(array, creation);
  } else {
    require_bytes(array, layout, file_size);
  }
  return array;
}

/// Reads all elements of an array as elements of type T. `type` is the HDF5 type of T.
template <class T>
std::vector<T> read_elements(const Array& array, hid_t type) {
  std::vector<T> elements(element_count(array.shape));
  hdf5::require(H5Dread(array.dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()),
                "read", array.name);
  return elements;
}

// ---- Pixels.

template <class T>
void read_pixels_as(const Array& pixels, hid_t type, ImageArrays& images) {
  images.require_bytes_per_value(sizeof(T) + sizeof(float));
  const std::vector<T> all = read_elements<T>(pixels, type);
  for (std::size_t image = 0; image < images.size(); ++image) {
    images.set_pixels(image, std::span(all).subspan(image * images.values(), images.values()));
  }
}

void require_numbers(const Array& pixels) {
  const H5T_class_t kind = H5Tget_class(element_type(pixels).get());
  if (kind == H5T_INTEGER || kind == H5T_FLOAT) return;
  reject(pixels.name, type_name(pixels.type), "integers or floating-point numbers");
}

/// Reads pixels as elements of the smallest of three types that can represent them.
void read_pixels(const Array& pixels, ImageArrays& images) {
  const hdf5::Datatype type = element_type(pixels);
  const std::size_t size = H5Tget_size(type.get());
  const bool integer = H5Tget_class(type.get()) == H5T_INTEGER;
  const bool single =
      H5Tequal(type.get(), H5T_IEEE_F32LE) > 0 || H5Tequal(type.get(), H5T_IEEE_F32BE) > 0;
  if (integer && size == 1 && is_unsigned(type)) {
    read_pixels_as<std::uint8_t>(pixels, H5T_NATIVE_UCHAR, images);
  } else if (size <= 2 || single) {
    read_pixels_as<float>(pixels, H5T_NATIVE_FLOAT, images);
  } else {
    read_pixels_as<double>(pixels, H5T_NATIVE_DOUBLE, images);
  }
}

// ---- Labels.

[[noreturn]] void reject_long_label(std::size_t size) {
  reject("labels", fmt::format("text of {} bytes", size),
         fmt::format("at most {}", max_label_length));
}

/// The text of a fixed-length string without its padding.
std::string without_padding(std::string text, H5T_str_t padding) {
  if (padding == H5T_STR_NULLTERM) return text.substr(0, text.find('\0'));
  text.erase(text.find_last_not_of(padding == H5T_STR_SPACEPAD ? ' ' : '\0') + 1);
  return text;
}

void read_fixed_texts(const Array& labels, ImageArrays& images) {
  const std::size_t size = H5Tget_size(labels.type.get());
  std::string all(images.size() * size, '\0');
  hdf5::require(
      H5Dread(labels.dataset.get(), labels.type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()),
      "read", labels.name);
  for (std::size_t i = 0; i < images.size(); ++i) {
    images.add(without_padding(all.substr(i * size, size), H5Tget_strpad(labels.type.get())));
  }
}

void read_variable_texts(const Array& labels, ImageArrays& images) {
  const hdf5::Datatype type(H5Tcopy(H5T_C_S1), "create a string type");
  hdf5::require(H5Tset_size(type.get(), H5T_VARIABLE), "create a string type");
  hdf5::require(H5Tset_cset(type.get(), H5Tget_cset(labels.type.get())), "create a string type");
  std::vector<char*> pointers = read_elements<char*>(labels, type.get());
  std::vector<std::string> texts;
  for (const char* text : pointers) {
    texts.push_back(text == nullptr ? ""
                                    : std::string(text, ::strnlen(text, max_label_length + 1)));
  }
  H5Dvlen_reclaim(type.get(), labels.space.get(), H5P_DEFAULT, pointers.data());
  for (std::string& text : texts) {
    if (text.size() > max_label_length) reject_long_label(text.size());
    images.add(std::move(text));
  }
}

template <class T>
void read_integers(const Array& labels, hid_t type, ImageArrays& images) {
  for (const T label : read_elements<T>(labels, type)) images.add(fmt::to_string(label));
}

/// Rejects labels that are neither text nor integers of at most 64 bits.
void require_label_type(const Array& labels) {
  if (H5Tget_class(labels.type.get()) == H5T_STRING) {
    const std::size_t size = H5Tget_size(labels.type.get());
    const bool variable = H5Tis_variable_str(labels.type.get()) > 0;
    if (!variable && size > max_label_length) reject_long_label(size);
    return;
  }
  const hdf5::Datatype type = element_type(labels);
  if (H5Tget_class(type.get()) != H5T_INTEGER) {
    reject(labels.name, type_name(labels.type), "integers or text");
  }
  if (H5Tget_size(type.get()) > 8) reject(labels.name, type_name(type), "int64 or uint64");
}

void read_labels(const Array& labels, ImageArrays& images) {
  if (H5Tis_variable_str(labels.type.get()) > 0) {
    read_variable_texts(labels, images);
  } else if (H5Tget_class(labels.type.get()) == H5T_STRING) {
    read_fixed_texts(labels, images);
  } else if (is_unsigned(element_type(labels))) {
    read_integers<std::uint64_t>(labels, H5T_NATIVE_UINT64, images);
  } else {
    read_integers<std::int64_t>(labels, H5T_NATIVE_INT64, images);
  }
}

}  // namespace

ImageFile read_hdf5_images(const std::string& key, const std::filesystem::path& path,
                           const ImageOptions& options, Corpus& corpus) {
  const std::vector<std::byte> bytes = read_corpus_bytes(key, path, corpus);
  const std::string name = escaped(path.native());
  try {
    const hdf5::Session session;
    hdf5::BytesFile file(bytes);
    const hdf5::File opened = file.open();
    const Array pixels = open_array(opened, bytes.size(), "images");
    const Array labels = open_array(opened, bytes.size(), "labels");
    require_numbers(pixels);
    require_label_type(labels);
    ImageArrays images({.images = name, .labels = name}, pixels.shape, labels.shape, options);
    read_labels(labels, images);
    read_pixels(pixels, images);
    return images.take();
  } catch (const hdf5::Error& error) {
    throw DataError(fmt::format("{}: {}", name, escaped(error.what())), how_to_store);
  }
}

}  // namespace tapestry
