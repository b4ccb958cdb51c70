#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

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

/// The pixels of an image in a line as of such a file, but without a label. A value of
/// `pixel_maximum` becomes 1.
///
/// throws  DataError, which begins with `place`, if the line has another number of fields or one of
///         them is no finite number.
std::vector<float> parse_image(std::string_view line, const std::string& place,
                               const DataOptions& options);

/// Whether a line is the heading over images without labels: a field for each pixel, of which none
/// is a number.
bool is_image_heading(std::string_view line, const DataOptions& options);

}  // namespace tapestry
