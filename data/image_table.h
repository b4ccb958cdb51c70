#pragma once

#include <filesystem>

#include "data/labelled_images.h"

namespace tapestry {

/// Reads images from a CSV file, one a line: the values of all pixels, row by row from the top
/// left, the channels of a pixel side by side, then the label; separated by commas. Blank lines are
/// left out, and so is a first line without any number, the heading. The file is added to those of
/// the corpus under `key`.
///
/// throws  DataError, naming file and line, if a line has another number of fields, a field is no
///         finite number or a label is not one word; if there is no image.
ImageFile read_image_table(const char* key, const std::filesystem::path& path,
                           const DataOptions& options, Corpus& corpus);

}  // namespace tapestry
