#pragma once

#include <filesystem>

#include "data/corpora/images.h"

namespace tapestry {

/// Reads images from an HDF5 file with two datasets: `images`, (n, height, width) or (n, height,
/// width, channels), of integers or floating-point numbers, and `labels`, (n), of integers or
/// strings. libhdf5 converts all sizes and byte orders and supports its built-in filters: gzip,
/// shuffle, fletcher32, szip, n-bit and scale-offset.
///
/// The file may be untrusted: HDF5 reads it from memory in a child process that cannot open files
/// and whose time and memory are limited in proportion to the size of the file. External and
/// virtual storage, soft and external links, other filters, incomplete arrays and files that expand
/// by more than the maximum ratio of gzip are refused. The file is recorded in the corpus under
/// `key`.
///
/// throws  DataError with the file, what was found in it and what was expected.
ImageFile read_hdf5_images(const std::string& key, const std::filesystem::path& path,
                           const ImageOptions& options, Corpus& corpus);

}  // namespace tapestry
