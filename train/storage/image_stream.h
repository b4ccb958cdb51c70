#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/corpora/images.h"

/// What the process in which HDF5 reads a file of images sends to the program:
///
///   the PixelType; the number of axes and the extents of `images`, and those of `labels`: uint64
///   each label: the number of its bytes as uint32, and the bytes
///   all pixels, in row-major order
namespace tapestry {

/// What pixels are sent as: the smallest of these types that holds those of the file.
enum class PixelType : std::uint64_t { uint8 = 1, float32 = 2, float64 = 3 };

inline constexpr std::uint32_t longest_label = 1000;  ///< bytes

/// What the process sends in which HDF5 reads a file.
struct ImageStream {
  std::function<void(std::span<std::byte>)> receive;  ///< fills a span with the next bytes
  std::function<void()> finish;                       ///< throws unless that was all
};

/// The images of a stream, which the file may have made anything.
///
/// name       of the file in errors, escaped
/// file_size  bytes; of the images no more are taken than gzip can pack into so many
/// throws     DataError, also for what the stream throws, but for std::bad_alloc
ImageFile receive_images(const std::string& name, std::uint64_t file_size,
                         const ImageStream& stream, const ImageOptions& options);

}  // namespace tapestry
