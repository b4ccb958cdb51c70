#include "train/storage/described_images.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <sstream>
#include <vector>

#include "data/io/error.h"
#include "data/io/escape.h"

namespace tapestry {
namespace {

using Bytes = std::span<const std::byte>;

/// "TYPE OFFSET SIZE AXES EXTENT ..."
std::string to_line(const ArrayEntry& entry) {
  std::string line = fmt::format("{} {} {} {}", static_cast<int>(entry.type), entry.offset,
                                 entry.size, entry.shape.size());
  for (const std::uint64_t extent : entry.shape) line += fmt::format(" {}", extent);
  return line + '\n';
}

std::optional<ArrayEntry> parse_entry(std::istream& lines, const char* name) {
  ArrayEntry entry{.path = name};
  int type = 0;
  std::size_t axes = 0;
  lines >> type >> entry.offset >> entry.size >> axes;
  if (!lines || type < 1 || type > element_type_count || axes > max_stored_rank) return {};
  entry.type = static_cast<ElementType>(type);
  entry.shape.resize(axes);
  for (std::uint64_t& extent : entry.shape) lines >> extent;
  return lines ? std::optional(entry) : std::nullopt;
}

ImageArrays parse(const std::string& name, const std::string& description) {
  std::istringstream lines(description);
  const auto images = parse_entry(lines, "images"), labels = parse_entry(lines, "labels");
  if (images && labels) return {.images = *images, .labels = *labels};
  throw DataError(fmt::format("{}: the process that looked at it with HDF5 did not say where its "
                              "arrays are",
                              name),
                  "the file is damaged: write it anew");
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
  ArrayReader(ImageFile& to, Bytes file, const ImageOptions& options)
      : to_(to), file_(file), options_(options) {}

  void read(const ImageArrays& arrays) {
    check_shapes(arrays);
    check_types(arrays);
    const Bytes pixels = bytes_of(arrays.images), labels = bytes_of(arrays.labels);
    to_.images.resize(arrays.labels.shape.front());  // no more than the file has
    for (std::size_t i = 0; i < to_.images.size(); ++i) to_.images[i].number = i;
    read_pixels(arrays.images.type, pixels);
    read_labels(arrays.labels.type, labels);
  }

 private:
  void check_shapes(const ImageArrays& arrays) const {
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

  void check_types(const ImageArrays& arrays) const {
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
  const ImageOptions& options_;
};

}  // namespace

std::string describe(const ImageArrays& arrays) {
  return to_line(arrays.images) + to_line(arrays.labels);
}

ImageFile read_described_images(const std::filesystem::path& path, std::span<const std::byte> file,
                                const std::string& description, const ImageOptions& options) {
  ImageFile images{.name = escaped(path.native()), .is_table = false, .images = {}};
  ArrayReader(images, file, options).read(parse(images.name, description));
  return images;
}

}  // namespace tapestry
