#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/options.h"

namespace tapestry {

/// Images from CSV files, one a line: the values of all pixels, row by row from the top left, the
/// channels of a pixel side by side, then the label; separated by commas. A value of
/// `pixel_maximum` becomes 1. Blank lines are left out, and so is a first line without any number,
/// the heading.
///
/// Without a file for validation or testing, `validation_size` and `test_size` lines of the
/// training file, spread evenly over it, are held out.
///
/// throws  DataError, naming file and line, if a line has another number of fields, a field is no
///         finite number or a label is unknown or not one word; if more is to be held out than
///         there is.
ParallelCorpus load_image_tables(const DataOptions& options, const std::filesystem::path& base);

}  // namespace tapestry
