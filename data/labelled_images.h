#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/options.h"

namespace tapestry {

/// An image of a file and the class it is in.
struct LabelledImage {
  std::size_t number = 0;  ///< the line of a table, from 1, or the index in an array, from 0
  std::string label;
  std::vector<float>
      pixels;  ///< row by row from the top left, the channels of a pixel side by side
};

/// The images of a file.
struct ImageFile {
  std::string name;  ///< as messages have it
  bool is_table = true;
  std::vector<LabelledImage> images;

  /// Where in the file an image stands: "digits.csv:12", "digits.h5: image 11".
  std::string place(const LabelledImage& image) const;
};

/// Reads a file of images that is not a table, and adds it to the files of the corpus under the key
/// of the config that names it.
using ImageFileReader = std::function<ImageFile(const char* key, const std::filesystem::path& path,
                                                const DataOptions& options, Corpus& corpus)>;

/// The images that the options name, with a class for each label of the training images. Files
/// whose names end in .h5 or .hdf5 are read by `read_arrays`, all others as tables, see
/// image_table.h. A value of `pixel_maximum` becomes 1.
///
/// Without a file for validation or testing, `validation_size` and `test_size` images of the
/// training file are held out: of each class its share, spread evenly over the file. The classes of
/// a model that is trained already are given.
///
/// throws  DataError, as the readers do; naming the place, if a label is none of the classes; if
///         more is to be held out than there is; if an array is named without a reader for it.
Corpus load_images(const DataOptions& options, const std::filesystem::path& base,
                   const ImageFileReader& read_arrays = {}, const Vocabulary* classes = nullptr);

}  // namespace tapestry
