#pragma once

#include <filesystem>

#include "data/corpora/images.h"

namespace tapestry {

/// Reads the images of DIGITS.npy and the labels of DIGITS.labels.npy in the same folder, in the
/// format of numpy.save():
///
///   images  (n, height, width) or (n, height, width, channels), of bool, int8 to int64, uint8 to
///           uint64 or float16 to float64
///   labels  (n), of bool, integers or text (numpy's types S and U)
///
/// in either byte order and either element order (numpy's orders C and F), in the format of
/// numpy.lib.format, versions 1.0, 2.0 and 3.0. The files may be untrusted; pickled objects are
/// never read. Both files are added to the files of the corpus, the labels under
/// label_file_key(key).
///
/// throws  DataError with the file, what was found and what was expected
ImageFile read_npy_images(const std::string& key, const std::filesystem::path& path,
                          const ImageOptions& options, Corpus& corpus);

}  // namespace tapestry
