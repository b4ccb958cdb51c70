#pragma once

#include <filesystem>

#include "data/corpora/images.h"

namespace tapestry {

/// Reads the images of DIGITS.npy with the labels of DIGITS.labels.npy beside it, as numpy.save()
/// writes them:
///
///   images  (n, height, width) or (n, height, width, channels), of bool, int8 to int64, uint8 to
///           uint64 or float16 to float64
///   labels  (n), of bool, whole numbers or text (numpy's types S and U)
///
/// in either byte order, rows or columns first (numpy's orders C and F). The format is that of
/// numpy.lib.format, versions 1.0, 2.0 and 3.0. Nothing in the files need be trusted; pickled
/// objects are never read. Both files are added to those of the corpus, the labels under
/// label_file_key(key).
///
/// throws  DataError, naming the file, what was found and what was expected
ImageFile read_npy_images(const std::string& key, const std::filesystem::path& path,
                          const ImageOptions& options, Corpus& corpus);

}  // namespace tapestry
