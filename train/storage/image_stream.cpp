#include "train/storage/image_stream.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "data/corpora/image_arrays.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "train/format.h"
#include "train/platform/child_process.h"
#include "train/storage/snapshot.h"

namespace tapestry {
namespace {

constexpr const char* how_to_store =
    "write both with h5py, with gzip or without compression: h5py.File(path, \"w\").create_dataset("
    "\"images\", data=images, compression=\"gzip\"), and \"labels\" as integers or text";
constexpr const char* write_again = "the file is damaged: write it again";

/// Reads a stream and converts it to an ImageFile.
class Receiver {
 public:
  Receiver(const std::string& name, const ImageStream& stream) : name_(name), stream_(stream) {}

  ImageFile read(std::uint64_t file_size, const ImageOptions& options,
                 const AvailableMemory& memory) {
    const std::uint64_t type = number<std::uint64_t>();
    const ArrayShape images_shape = shape(), labels_shape = shape();
    ImageArrays images({.images = name_, .labels = name_}, images_shape, labels_shape, options);
    require_plausible(images, file_size);
    require_memory(images, memory);
    for (std::size_t i = 0; i < images.size(); ++i) images.add(label());
    read_pixels(static_cast<PixelType>(type), images);
    stream_.finish();
    return images.take();
  }

 private:
  template <class T>
  T number() {
    T value{};
    stream_.receive(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  ArrayShape shape() {
    const auto axes = number<std::uint64_t>();
    if (axes > max_stored_rank) refuse_stream();
    ArrayShape shape;
    for (std::uint64_t i = 0; i < axes; ++i) shape.push_back(number<std::uint64_t>());
    return shape;
  }

  std::string label() {
    const auto size = number<std::uint32_t>();
    if (size > longest_label) refuse_stream();
    std::string label(size, '\0');
    stream_.receive(std::as_writable_bytes(std::span(label)));
    return label;
  }

  void require_plausible(const ImageArrays& images, std::uint64_t file_size) const {
    constexpr std::uint64_t best_compression = 1032;  // maximum ratio of gzip
    const std::uint64_t most = best_compression * file_size / images.values();
    if (images.size() <= most) return;
    throw DataError(fmt::format("{}: found {} images, expected at most {} in a file of {} bytes",
                                name_, images.size(), most, file_size),
                    write_again);
  }

  /// Must be called after require_plausible(), which bounds the number of values.
  void require_memory(const ImageArrays& images, const AvailableMemory& memory) const {
    const std::uint64_t per_image = sizeof(LabelledImage) + images.values() * sizeof(float);
    const std::uint64_t need = images.size() * per_image;
    if (need <= memory.free) return;
    throw DataError(
        fmt::format("{}: found {} images that take {}, expected at most {}, the free memory{}",
                    name_, images.size(), format_bytes(need), format_bytes(memory.free),
                    memory.bound.empty() ? "" : fmt::format(" ({})", memory.bound)),
        "use fewer images, or free memory by ending other programs");
  }

  void read_pixels(PixelType type, ImageArrays& images) {
    switch (type) {
      case PixelType::uint8:
        return read_pixels_as<std::uint8_t>(images);
      case PixelType::float32:
        return read_pixels_as<float>(images);
      case PixelType::float64:
        return read_pixels_as<double>(images);
    }
    refuse_stream();
  }

  template <class T>
  void read_pixels_as(ImageArrays& images) {
    std::vector<T> values(images.values());
    for (std::size_t i = 0; i < images.size(); ++i) {
      stream_.receive(std::as_writable_bytes(std::span(values)));
      images.set_pixels(i, std::span(std::as_const(values)));
    }
  }

  [[noreturn]] void refuse_stream() const {
    throw DataError(name_ + ": the process that reads it with HDF5 sent no images", write_again);
  }

  const std::string& name_;
  const ImageStream& stream_;
};

}  // namespace

ImageFile receive_images(const std::string& name, std::uint64_t file_size,
                         const ImageStream& stream, const ImageOptions& options,
                         const AvailableMemory& memory) try {
  return Receiver(name, stream).read(file_size, options, memory);
} catch (const NotContained& error) {
  throw DataError(
      fmt::format("{}: the process that reads it with HDF5 failed: {}", name, error.what()),
      write_again);
} catch (const DataError&) {
  throw;
} catch (const std::runtime_error& error) {
  throw DataError(fmt::format("{}: {}", name, escaped(error.what())), how_to_store);
}

}  // namespace tapestry
