#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "data/corpora/images.h"

namespace tapestry {

/// Reads images from an HDF5 file with two datasets: `images`, (n, height, width) or (n, height,
/// width, channels), of uint8, int32, int64, uint64, float32 or float64, and `labels`, (n), of the
/// whole numbers among them. Both little-endian and contiguous, as h5py and others write arrays
/// unless they are told to chunk or compress them.
///
/// The file need not be trusted: HDF5 looks at it in a process of its own with 10 s and 256 MB, and
/// only says where the arrays are. The file is added to those of the corpus under `key`.
///
/// throws  DataError, naming the file and what is wrong in it: an array that is missing, of another
///         shape than the options say, stored in another way or not finite.
ImageFile read_image_arrays(const char* key, const std::filesystem::path& path,
                            const ImageOptions& options, Corpus& corpus);

/// The same where another says where the arrays are; see describe() in described_images.h.
ImageFile read_image_arrays_by(
    const std::function<std::string(std::span<const std::byte> file)>& described, const char* key,
    const std::filesystem::path& path, const ImageOptions& options, Corpus& corpus);

}  // namespace tapestry
