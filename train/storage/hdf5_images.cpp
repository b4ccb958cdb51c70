#include "train/storage/hdf5_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/corpora/image_arrays.h"
#include "data/corpus.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "train/platform/child_process.h"
#include "train/platform/memory.h"
#include "train/storage/hdf5_handle.h"
#include "train/storage/image_stream.h"

namespace tapestry {
namespace {

using Bytes = std::span<const std::byte>;
using hdf5::refuse;

// ---- The child process, since anything here may crash: reads HDF5 and writes the stream.

/// A dataset of the file whose storage has been checked.
struct Array {
  std::string name;
  hdf5::Object dataset;
  hdf5::Datatype type;
  hdf5::Dataspace space;
  ArrayShape shape;
  hsize_t rows_per_chunk = 1;
};

/// The integer type of an enumeration, which h5py uses for booleans; other types unchanged.
hdf5::Datatype number_type(const Array& array) {
  const bool named = H5Tget_class(array.type.get()) == H5T_ENUM;
  return {named ? H5Tget_super(array.type.get()) : H5Tcopy(array.type.get()), "look at the type of",
          array.name};
}

bool is_unsigned(const hdf5::Datatype& type) { return H5Tget_sign(type.get()) == H5T_SGN_NONE; }

/// "float32", "text", ...
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
      return "another type";
  }
}

hdf5::Object open_dataset(const hdf5::File& file, const char* name) {
  if (hdf5::require(H5Lexists(file.get(), name, H5P_DEFAULT), "look for", name) == 0) {
    refuse(name, "nothing", "a dataset of that name");
  }
  H5L_info_t link{};
  hdf5::require(H5Lget_info(file.get(), name, &link, H5P_DEFAULT), "look at", name);
  if (link.type != H5L_TYPE_HARD) refuse(name, "a soft or external link", "a dataset");
  hdf5::Object object(H5Oopen(file.get(), name, H5P_DEFAULT), "open", name);
  if (H5Iget_type(object.get()) != H5I_DATASET) refuse(name, "a group", "a dataset");
  return object;
}

/// Must be called first: reading the shape of a virtual dataset opens other files.
H5D_layout_t require_own_storage(const hdf5::PropertyList& creation, const char* name) {
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout == H5D_VIRTUAL) refuse(name, "virtual storage", "storage in this file");
  if (H5Pget_external_count(creation.get()) != 0) {
    refuse(name, "storage in other files", "storage in this one");
  }
  return layout;
}

/// Refuses filters that libhdf5 supports only through plug-ins.
void require_filters(const hdf5::PropertyList& creation, const char* name) {
  const int count = hdf5::require(H5Pget_nfilters(creation.get()), "count filters of", name);
  for (int i = 0; i < count; ++i) {
    std::array<char, 64> label{};
    unsigned flags = 0, decodes = 0;
    std::size_t no_values = 0;
    const H5Z_filter_t id =
        hdf5::require(H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags, &no_values,
                                     nullptr, label.size() - 1, label.data(), nullptr),
                      "look at the filters of", name);
    if (H5Zfilter_avail(id) > 0 && H5Zget_filter_info(id, &decodes) >= 0 &&
        (decodes & H5Z_FILTER_CONFIG_DECODE_ENABLED) != 0) {
      continue;
    }
    const std::string number = fmt::to_string(id), words = excerpt(label.data());
    refuse(name, "the filter " + (words.empty() ? number : fmt::format("{} ({})", words, number)),
           "gzip, shuffle or none");
  }
}

/// The number of chunks needed for a shape. `chunk` is the shape of a chunk.
std::uint64_t count_chunks(const ArrayShape& shape, const std::vector<hsize_t>& chunk) {
  ArrayShape chunks;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const hsize_t extent = std::max<hsize_t>(chunk[axis], 1);
    chunks.push_back(shape[axis] / extent + (shape[axis] % extent == 0 ? 0 : 1));
  }
  return byte_count(chunks, 1).value_or(~std::uint64_t{0});
}

/// Refuses a dataset with missing chunks, which HDF5 would read as zeros.
void require_chunks(Array& array, const hdf5::PropertyList& creation) {
  std::vector<hsize_t> chunk(array.shape.size());
  hdf5::require(H5Pget_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()),
                "look at the chunks of", array.name);
  hsize_t found = 0;
  hdf5::require(H5Dget_num_chunks(array.dataset.get(), array.space.get(), &found),
                "count the chunks of", array.name);
  const std::uint64_t expected = count_chunks(array.shape, chunk);
  if (found != expected) {
    refuse(array.name, fmt::format("{} chunks written", found),
           fmt::format("the {} of shape {}", expected, to_string(array.shape)));
  }
  if (!chunk.empty()) array.rows_per_chunk = std::max<hsize_t>(chunk.front(), 1);
}

/// The same for contiguous and compact storage.
void require_bytes(const Array& array, H5D_layout_t layout, std::size_t file_size) {
  const hsize_t size = H5Dget_storage_size(array.dataset.get());
  const bool by_reference = H5Tis_variable_str(array.type.get()) > 0;
  const auto expected = byte_count(array.shape, by_reference ? 1 : H5Tget_size(array.type.get()));
  if (by_reference ? size < expected : size != expected) {
    refuse(array.name, fmt::format("{} bytes stored", size),
           fmt::format("those of {} {}", type_name(array.type), to_string(array.shape)));
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
  const hdf5::PropertyList creation(H5Dget_create_plist(dataset.get()), "look at", name);
  const H5D_layout_t layout = require_own_storage(creation, name);
  require_filters(creation, name);
  hdf5::Datatype type(H5Dget_type(dataset.get()), "look at the type of", name);
  hdf5::Dataspace space(H5Dget_space(dataset.get()), "look at the shape of", name);
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

/// Reads an array in blocks of rows. A block consists of whole chunks, so that no chunk is
/// decompressed twice, and has about 1 MB unless a chunk is larger.
///
/// type  element type in memory, `size` bytes each
/// use   called with the elements of each block and their shape
void read_blocks(
    const Array& array, hid_t type, std::size_t size,
    const std::function<void(std::span<std::byte> block, const hdf5::Dataspace&)>& use) {
  constexpr std::size_t about = std::size_t{1} << 20;
  const std::uint64_t all = byte_count(array.shape, size).value_or(0);
  if (all == 0 || array.shape.empty()) return;  // the parent process refuses this shape
  const std::uint64_t rows = array.shape.front(), row = all / rows;
  const std::uint64_t chunks = std::max<std::uint64_t>(about / row / array.rows_per_chunk, 1);
  const std::uint64_t most = std::min<std::uint64_t>(rows, chunks * array.rows_per_chunk);
  std::vector<std::byte> block(most * row);
  std::vector<hsize_t> begin(array.shape.size()), count(array.shape.begin(), array.shape.end());
  for (; begin.front() < rows; begin.front() += count.front()) {
    count.front() = std::min<std::uint64_t>(most, rows - begin.front());
    const hdf5::Dataspace space(
        H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), "shape a block of",
        array.name);
    hdf5::require(H5Sselect_hyperslab(array.space.get(), H5S_SELECT_SET, begin.data(), nullptr,
                                      count.data(), nullptr),
                  "select a block of", array.name);
    hdf5::require(H5Dread(array.dataset.get(), type, space.get(), array.space.get(), H5P_DEFAULT,
                          block.data()),
                  "read", array.name);
    use(std::span(block).first(count.front() * row), space);
  }
}

// Pixels.

PixelType pixel_type(const Array& images) {
  const hdf5::Datatype type = number_type(images);
  const std::size_t size = H5Tget_size(type.get());
  switch (H5Tget_class(type.get())) {
    case H5T_INTEGER:
      if (size == 1 && is_unsigned(type)) return PixelType::uint8;
      return size <= 2 ? PixelType::float32 : PixelType::float64;
    case H5T_FLOAT: {
      const bool single =
          H5Tequal(type.get(), H5T_IEEE_F32LE) > 0 || H5Tequal(type.get(), H5T_IEEE_F32BE) > 0;
      return size <= 2 || single ? PixelType::float32 : PixelType::float64;
    }
    default:
      refuse(images.name, type_name(images.type), "integers or floating-point numbers");
  }
}

void send_pixels(const Array& images, PixelType type, const ChildProcess::Send& send) {
  const auto as = [&](hid_t in_memory, std::size_t size) {
    read_blocks(images, in_memory, size, [&](Bytes block, const hdf5::Dataspace&) { send(block); });
  };
  switch (type) {
    case PixelType::uint8:
      return as(H5T_NATIVE_UCHAR, 1);
    case PixelType::float32:
      return as(H5T_NATIVE_FLOAT, sizeof(float));
    case PixelType::float64:
      return as(H5T_NATIVE_DOUBLE, sizeof(double));
  }
}

// Labels.

[[noreturn]] void refuse_long_label(std::size_t size) {
  refuse("labels", fmt::format("text of {} bytes", size), fmt::format("at most {}", longest_label));
}

enum class LabelType { int64, uint64, text, text_of_any_length };

LabelType label_type(const Array& labels) {
  if (H5Tget_class(labels.type.get()) == H5T_STRING) {
    if (H5Tis_variable_str(labels.type.get()) > 0) return LabelType::text_of_any_length;
    const std::size_t size = H5Tget_size(labels.type.get());
    if (size > longest_label) refuse_long_label(size);
    return LabelType::text;
  }
  const hdf5::Datatype type = number_type(labels);
  if (H5Tget_class(type.get()) != H5T_INTEGER) {
    refuse(labels.name, type_name(labels.type), "integers or text");
  }
  if (H5Tget_size(type.get()) > 8) refuse(labels.name, type_name(type), "int64 or uint64");
  return is_unsigned(type) ? LabelType::uint64 : LabelType::int64;
}

template <class T>
T element_at(const std::byte* place) {
  T element;
  std::memcpy(&element, place, sizeof(T));
  return element;
}

template <class T>
std::string number_text(const std::byte* element) {
  return fmt::to_string(element_at<T>(element));
}

/// The text of a fixed-length string without its padding.
std::string fixed_text(const std::byte* element, const hdf5::Datatype& type) {
  std::string text(reinterpret_cast<const char*>(element), H5Tget_size(type.get()));
  const H5T_str_t padding = H5Tget_strpad(type.get());
  if (padding == H5T_STR_NULLTERM) return text.substr(0, text.find('\0'));
  text.erase(text.find_last_not_of(padding == H5T_STR_SPACEPAD ? ' ' : '\0') + 1);
  return text;
}

std::string text_of_any_length(const std::byte* element) {
  const char* text = element_at<const char*>(element);
  if (text == nullptr) return "";
  const std::size_t size = ::strnlen(text, longest_label + 1);
  if (size > longest_label) refuse_long_label(size);
  return {text, size};
}

hdf5::Datatype text_in_memory(const Array& labels) {
  hdf5::Datatype type(H5Tcopy(H5T_C_S1), "make a type of text");
  hdf5::require(H5Tset_size(type.get(), H5T_VARIABLE), "make a type of text");
  hdf5::require(H5Tset_cset(type.get(), H5Tget_cset(labels.type.get())), "make a type of text");
  return type;
}

/// Reads labels as elements of `type` and sends text(element) for each.
void send_labels_as(const Array& labels, hid_t type,
                    const std::function<std::string(const std::byte*)>& text,
                    const ChildProcess::Send& send) {
  const std::size_t size = H5Tget_size(type);
  read_blocks(labels, type, size, [&](std::span<std::byte> block, const hdf5::Dataspace& space) {
    std::string bytes;
    for (std::size_t i = 0; i < block.size(); i += size) {
      const std::string label = text(block.data() + i);
      const auto length = static_cast<std::uint32_t>(label.size());
      bytes.append(reinterpret_cast<const char*>(&length), sizeof(length)).append(label);
    }
    send(std::as_bytes(std::span(bytes)));
    if (H5Tis_variable_str(type) > 0) {
      H5Dvlen_reclaim(type, space.get(), H5P_DEFAULT, block.data());
    }
  });
}

void send_labels(const Array& labels, LabelType type, const ChildProcess::Send& send) {
  switch (type) {
    case LabelType::int64:
      return send_labels_as(labels, H5T_NATIVE_INT64, number_text<std::int64_t>, send);
    case LabelType::uint64:
      return send_labels_as(labels, H5T_NATIVE_UINT64, number_text<std::uint64_t>, send);
    case LabelType::text:
      return send_labels_as(
          labels, labels.type.get(),
          [&](const std::byte* element) { return fixed_text(element, labels.type); }, send);
    case LabelType::text_of_any_length:
      return send_labels_as(labels, text_in_memory(labels).get(), text_of_any_length, send);
  }
}

void send_images(Bytes file, const ChildProcess::Send& send) {
  const hdf5::Session session;
  const hdf5::File opened = hdf5::open_image(file);
  const Array images = open_array(opened, file.size(), "images"),
              labels = open_array(opened, file.size(), "labels");
  const PixelType pixels = pixel_type(images);
  const LabelType names = label_type(labels);
  std::vector<std::uint64_t> header{static_cast<std::uint64_t>(pixels)};
  for (const ArrayShape& shape : {images.shape, labels.shape}) {
    header.push_back(shape.size());
    header.insert(header.end(), shape.begin(), shape.end());
  }
  send(std::as_bytes(std::span(header)));
  send_labels(labels, names, send);
  send_pixels(images, pixels, send);
}

/// Limits proportional to the size of the file.
ChildProcess::Limits limits_for(std::uint64_t file_size) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  return {.seconds = 10 + static_cast<unsigned>(file_size / mebibyte),
          .bytes = 256 * mebibyte + 32 * file_size};
}

}  // namespace

ImageFile read_hdf5_images(const std::string& key, const std::filesystem::path& path,
                           const ImageOptions& options, Corpus& corpus) {
  const std::vector<std::byte> file = read_corpus_bytes(key, path, corpus);
  const std::string name = escaped(path.native());
  const auto work = [&](const ChildProcess::Send& send) { send_images(file, send); };
  try {
    ChildProcess child(work, limits_for(file.size()));
    return receive_images(name, file.size(),
                          {.receive = [&](std::span<std::byte> to) { child.receive(to); },
                           .finish = [&] { child.finish(); }},
                          options, read_available_memory());
  } catch (const std::system_error& error) {
    throw DataError(
        fmt::format("{}: cannot start the process that reads it: {}", name, error.code().message()),
        "end other programs, or raise the limit on processes (ulimit -u)");
  }
}

}  // namespace tapestry
