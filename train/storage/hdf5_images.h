#pragma once

#include <filesystem>

#include "data/corpora/images.h"

namespace tapestry {

/// Reads images from an HDF5 file with two datasets: `images`, (n, height, width) or (n, height,
/// width, channels), of integers or floating-point numbers, and `labels`, (n), of integers or
/// strings. libhdf5 converts every size and byte order and undoes every filter that it has itself:
/// gzip, shuffle, fletcher32, szip, n-bit and scale-offset.
///
/// The file need not be trusted: HDF5 reads it from memory in a process of its own, which can open
/// no file and has time and memory in proportion to the size of the file. Refused are external and
/// virtual storage, soft and external links, other filters, arrays that were not written whole and
/// files that expand to more than gzip can pack into their size. The file is added to those of the
/// corpus under `key`.
///
/// throws  DataError, naming the file, what was found in it and what was expected.
ImageFile read_hdf5_images(const char* key, const std::filesystem::path& path,
                           const ImageOptions& options, Corpus& corpus);

}  // namespace tapestry
