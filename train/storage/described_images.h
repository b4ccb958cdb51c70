#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "data/corpora/images.h"
#include "train/storage/checkpoint_table.h"

namespace tapestry {

/// Where a file has the arrays of its images.
struct ImageArrays {
  ArrayEntry images, labels;  ///< their digests are not used
};

/// Two lines of numbers, for a process that cannot be trusted with more.
std::string describe(const ImageArrays& arrays);

/// The images of a file, of which another process, which that file may have made say anything,
/// told where they are.
///
/// path         names the file in errors
/// file         all of its bytes
/// description  what describe() said there
/// throws       DataError, naming the file, if no describe() says that, if the arrays are not in it
///              or not what the options say, or a pixel is not finite
ImageFile read_described_images(const std::filesystem::path& path, std::span<const std::byte> file,
                                const std::string& description, const ImageOptions& options);

}  // namespace tapestry
