#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"

namespace tapestry {

/// The files of a corpus of images, which are relative to the folder of the config, and their
/// shape.
struct ImageOptions {
  std::string train_images, validation_images, test_images;  ///< the last two may be empty
  std::size_t image_height = 8, image_width = 8, image_channels = 1;
  double pixel_maximum = 255.0;  ///< the value of a pixel that becomes 1, > 0
};

/// How many images of the training file are held out where there is no other file.
struct HeldOutImages {
  std::size_t validation, test;
};

/// An image of a file, with the name of its class.
struct LabelledImage {
  std::size_t number = 0;  ///< the line of a table, from 1, or the index in an array, from 0
  std::string label;
  std::vector<float> pixels;  ///< (height, width, channels)
};

/// The images of a file.
struct ImageFile {
  std::string name;  ///< the path, escaped for messages
  bool is_table = true;
  std::vector<LabelledImage> images;

  /// The place of an image in the file: "digits.csv:12", "digits.h5: image 11".
  std::string place(const LabelledImage& image) const;
};

/// Reads the images of an HDF5 file and adds the file to corpus.files under the config key `key`.
using ImageFileReader = std::function<ImageFile(const char* key, const std::filesystem::path& path,
                                                const ImageOptions& options, Corpus& corpus)>;

/// The corpus of images; the labels of the training images are the classes, unless `classes` of a
/// trained model are given. Relative paths start at `base`. Files whose names end in .npy are read
/// by read_npy_images(), those in .h5 or .hdf5 by `read_arrays`, all others as CSV tables:
///
///   one image a line: the values of all pixels, row by row from the top left, the channels of a
///   pixel side by side, then the label; separated by commas. Blank lines are skipped, and so is a
///   first line without any number, the heading.
///
/// A value of `pixel_maximum` becomes 1. Without a file for validation or testing, `held_out`
/// images of the training file are held out: the same share of each class, spread evenly over the
/// file. The keys of these numbers are data.validation_size and data.test_size.
///
/// throws  DataError as the readers do; naming file and line, if a line has the wrong number of
///         fields, a pixel is not a finite number, a label is not one word or not one of the
///         classes; if a file has no image; if more images are to be held out than there are; if an
///         HDF5 file is named without a reader for it.
Corpus load_images(const ImageOptions& options, const HeldOutImages& held_out,
                   const std::filesystem::path& base, const ImageFileReader& read_arrays = {},
                   const Vocabulary* classes = nullptr);

/// The pixels of a line of a table without labels, (height, width, channels). A value of
/// `pixel_maximum` becomes 1.
///
/// throws  DataError, which begins with `place`, if the line has the wrong number of fields or a
///         field is not a finite number.
std::vector<float> parse_image(std::string_view line, const std::string& place,
                               const ImageOptions& options);

/// Whether a line is the heading of a table without labels: one field for each pixel, none of them
/// a number.
bool is_image_heading(std::string_view line, const ImageOptions& options);

}  // namespace tapestry
