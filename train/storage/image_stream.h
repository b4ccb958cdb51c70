#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/corpora/images.h"
#include "train/platform/memory.h"

/// The stream that the child process reading an HDF5 image file sends to the program:
///
///   - the PixelType; the number of axes and the extents of `images`, then those of `labels`; each
///     number is a uint64
///   - for each label the number of its bytes as uint32, and the bytes
///   - all pixels, in row-major order
namespace tapestry {

/// The element type of the pixels in the stream: the smallest of these that can represent the
/// pixels of the file.
enum class PixelType : std::uint64_t { uint8 = 1, float32 = 2, float64 = 3 };

inline constexpr std::uint32_t longest_label = 1000;  ///< bytes

/// The receiving end of the stream.
struct ImageStream {
  std::function<void(std::span<std::byte>)> receive;  ///< fills a span with the next bytes
  std::function<void()> finish;                       ///< throws unless the stream has ended
};

/// Reads the images from an untrusted stream.
///
/// name       file name in errors, escaped
/// file_size  bytes of the HDF5 file; more pixels than gzip could compress into this size are
///            refused
/// memory     more images than fit into the free memory are refused before they are received
/// throws     DataError, also for exceptions of the stream other than std::bad_alloc
ImageFile receive_images(const std::string& name, std::uint64_t file_size,
                         const ImageStream& stream, const ImageOptions& options,
                         const AvailableMemory& memory);

}  // namespace tapestry
