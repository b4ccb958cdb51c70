#include "train/image_arrays.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/binary_file.h"
#include "data/error.h"
#include "data/escape.h"
#include "train/checkpoint_table.h"
#include "train/contained.h"
#include "train/hdf5_dataset.h"

namespace tapestry {
namespace {

constexpr const char* how_to_store =
    "write both with h5py: file.create_dataset(\"images\", data=images.astype(\"float32\")), and "
    "\"labels\" as int64; without chunks or compression";

using Bytes = std::span<const std::byte>;

// ---- In the process that may crash.

ArrayEntry find_array(const hdf5::File& file, const char* name) {
  if (hdf5::require(H5Lexists(file.get(), name, H5P_DEFAULT), "look for", name) == 0) {
    hdf5::refuse(name, "nothing", "a dataset of that name");
  }
  H5L_info_t link{};
  hdf5::require(H5Lget_info(file.get(), name, &link, H5P_DEFAULT), "look at", name);
  if (link.type != H5L_TYPE_HARD) hdf5::refuse(name, "a soft or external link", "a dataset");
  const hdf5::Object object(H5Oopen(file.get(), name, H5P_DEFAULT), "open", name);
  if (H5Iget_type(object.get()) != H5I_DATASET) hdf5::refuse(name, "a group", "a dataset");
  return hdf5::describe_dataset(object, name);
}

/// "TYPE OFFSET SIZE AXES EXTENT ..."
std::string to_line(const ArrayEntry& entry) {
  std::string line = fmt::format("{} {} {} {}", static_cast<int>(entry.type), entry.offset,
                                 entry.size, entry.shape.size());
  for (const std::uint64_t extent : entry.shape) line += fmt::format(" {}", extent);
  return line + '\n';
}

std::string describe_arrays(Bytes file) {
  const hdf5::Session session;
  const hdf5::File opened = hdf5::open_image(file);
  std::string lines = to_line(find_array(opened, "images"));
  return lines += to_line(find_array(opened, "labels"));
}

// ---- Here, where nothing of that is believed.

ArrayEntry parse_entry(std::istream& lines, const char* name) {
  ArrayEntry entry{.path = name};
  int type = 0;
  std::size_t axes = 0;
  lines >> type >> entry.offset >> entry.size >> axes;
  if (!lines || type < 1 || type > element_type_count || axes > max_stored_rank) {
    throw NotContained("it answered in another way than was asked for");
  }
  entry.type = static_cast<ElementType>(type);
  entry.shape.resize(axes);
  for (std::uint64_t& extent : entry.shape) lines >> extent;
  return entry;
}

struct Arrays {
  ArrayEntry images, labels;
};

Arrays locate_arrays(Bytes file) {
  constexpr unsigned seconds = 10;
  constexpr std::size_t bytes = std::size_t{256} << 20;
  std::istringstream lines(run_contained([&] { return describe_arrays(file); }, seconds, bytes));
  Arrays arrays{.images = parse_entry(lines, "images"), .labels = parse_entry(lines, "labels")};
  if (!lines) throw NotContained("it answered in another way than was asked for");
  return arrays;
}

/// Calls f(elements) for the elements of an array.
template <class F>
void visit_elements(ElementType type, Bytes bytes, F&& f) {
  const auto as = [&]<class T>(T) {
    std::vector<T> elements(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(elements.data(), bytes.data(), bytes.size());
    f(elements);
  };
  switch (type) {
    case ElementType::float32:
      return as(float{});
    case ElementType::float64:
      return as(double{});
    case ElementType::int32:
      return as(std::int32_t{});
    case ElementType::int64:
      return as(std::int64_t{});
    case ElementType::uint64:
      return as(std::uint64_t{});
    case ElementType::uint8:
      return as(std::uint8_t{});
  }
}

/// Makes images of two arrays of a file.
class ArrayReader {
 public:
  ArrayReader(ImageFile& to, Bytes file, const DataOptions& options)
      : to_(to), file_(file), options_(options) {}

  void read(const Arrays& arrays) {
    check_shapes(arrays);
    check_types(arrays);
    const Bytes pixels = bytes_of(arrays.images), labels = bytes_of(arrays.labels);
    to_.images.resize(arrays.labels.shape.front());  // no more than the file has
    for (std::size_t i = 0; i < to_.images.size(); ++i) to_.images[i].number = i;
    read_pixels(arrays.images.type, pixels);
    read_labels(arrays.labels.type, labels);
  }

 private:
  void check_shapes(const Arrays& arrays) const {
    const std::uint64_t height = options_.image_height, width = options_.image_width,
                        channels = options_.image_channels;
    const StoredShape& shape = arrays.images.shape;
    const std::uint64_t count = shape.empty() ? 0 : shape.front();
    const bool grey = channels == 1 && shape == StoredShape{count, height, width};
    if (!grey && shape != StoredShape{count, height, width, channels}) {
      refuse(fmt::format("images of shape {}, expected (n, {}, {}{})", to_string(shape), height,
                         width, channels == 1 ? "" : fmt::format(", {}", channels)),
             "see data.image_height, data.image_width and data.image_channels");
    }
    if (arrays.labels.shape != StoredShape{count}) {
      refuse(fmt::format("labels of shape {}, expected ({}), one for each image",
                         to_string(arrays.labels.shape), count),
             "write a label for each image");
    }
    if (count == 0) refuse("no image, expected one or more", "name a file with images");
  }

  void check_types(const Arrays& arrays) const {
    const ElementType type = arrays.labels.type;
    if (type != ElementType::float32 && type != ElementType::float64) return;
    refuse(fmt::format("labels of {}, expected whole numbers", element_type_name(type)),
           "convert them, in numpy with labels.astype(\"int64\")");
  }

  /// The bytes of an array, if they are in the file.
  Bytes bytes_of(const ArrayEntry& entry) const {
    if (entry.size != stored_byte_count(entry.type, entry.shape) || entry.size > file_.size() ||
        entry.offset > file_.size() - entry.size) {
      refuse(fmt::format("the end of the file inside `{}`, expected {} bytes at {}", entry.path,
                         entry.size, entry.offset),
             "the file is damaged or not complete: write it anew");
    }
    return file_.subspan(entry.offset, entry.size);
  }

  void read_pixels(ElementType type, Bytes bytes) {
    visit_elements(type, bytes, [&](const auto& values) {
      const std::size_t pixels = values.size() / to_.images.size();
      for (LabelledImage& image : to_.images) image.pixels.reserve(pixels);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto pixel =
            static_cast<float>(static_cast<double>(values[i]) / options_.pixel_maximum);
        if (!std::isfinite(pixel)) {
          refuse_in(i / pixels, fmt::format("{}, expected a finite number", values[i]));
        }
        to_.images[i / pixels].pixels.push_back(pixel);
      }
    });
  }

  void read_labels(ElementType type, Bytes bytes) {
    visit_elements(type, bytes, [&](const auto& values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        to_.images[i].label = fmt::to_string(values[i]);
      }
    });
  }

  [[noreturn]] void refuse(const std::string& found, const char* hint) const {
    throw DataError(fmt::format("{}: found {}", to_.name, found), hint);
  }

  [[noreturn]] void refuse_in(std::size_t image, const std::string& found) const {
    throw DataError(fmt::format("{}: found {}", to_.place(to_.images[image]), found),
                    "replace NaN and infinity, or raise data.pixel_maximum");
  }

  ImageFile& to_;
  Bytes file_;
  const DataOptions& options_;
};

Arrays locate_arrays_in(const std::string& name, Bytes file) try {
  return locate_arrays(file);
} catch (const NotContained& error) {
  throw DataError(fmt::format("{}: HDF5 could not look at it: {}", name, error.what()),
                  "the file is damaged: write it anew");
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::system_error& error) {
  throw DataError(fmt::format("{}: no process could be started to look at it: {}", name,
                              error.code().message()),
                  "end other programs, or raise the limit on processes (ulimit -u)");
} catch (const std::exception& error) {
  throw DataError(fmt::format("{}: {}", name, escaped(error.what())), how_to_store);
}

}  // namespace

ImageFile read_image_arrays(const char* key, const std::filesystem::path& path,
                            const DataOptions& options, ParallelCorpus& corpus) {
  const BinaryFile file = read_binary_file(path);
  corpus.files.push_back({key, path, file.bytes.size(), file.digest});
  ImageFile images{.name = escaped(path.native()), .is_table = false, .images = {}};
  const Arrays arrays = locate_arrays_in(images.name, file.bytes);
  ArrayReader(images, file.bytes, options).read(arrays);
  return images;
}

}  // namespace tapestry
