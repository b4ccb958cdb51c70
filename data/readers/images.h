// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "data/readers/training_set.h"

namespace tapestry {

/// The image files of a corpus, relative to the folder of the config, and the shape of an image.
struct ImageOptions {
  std::string train_images{};       ///< file of the training set
  std::string validation_images{};  ///< file of the validation set; if empty, images are held
                                    ///< out of the training set
  std::string test_images{};        ///< file of the test set; may be empty, like validation_images
  std::size_t image_height = 8;     ///< in pixels, >= 1
  std::size_t image_width = 8;      ///< in pixels, >= 1
  std::size_t image_channels = 1;   ///< values per pixel, >= 1
  double pixel_maximum = 255.0;     ///< the pixel value that is scaled to 1, > 0
};

/// The number of training images to hold out for each set that has no file.
struct HeldOutImages {
  std::size_t validation;  ///< number of images for the validation set
  std::size_t test;        ///< number of images for the test set
};

/// An image with the name of its class.
struct LabelledImage {
  std::size_t number = 0;     ///< the line of a table, from 1, or the index in an array, from 0
  std::string label;          ///< class name
  std::vector<float> pixels;  ///< (height, width, channels)
};

/// The images of a file.
struct ImageFile {
  std::string name;        ///< path of the file, escaped for messages
  std::string label_file;  ///< path of the label file, escaped; may equal `name`
  bool is_table = true;    ///< whether images are lines of a table instead of parts of an array
  std::vector<LabelledImage> images;  ///< in the order of the file
  std::vector<std::uint64_t>
      shape{};  ///< shape of an image in an array: (height, width) or (height, width, channels)

  /// The position of an image in the file: "digits.csv:12", "digits.h5: image 11".
  std::string place(const LabelledImage& image) const;
  /// The position of the label of an image: "digits.labels.npy: image 11" for the images of
  /// digits.npy.
  std::string label_place(const LabelledImage& image) const;
};

/// Loads a corpus of images. The classes are the labels of the training images, or `classes` for a
/// trained model. With `classes`, the training file is optional: without it, the training set and
/// the sets held out of it are empty. Paths are relative to `base`. Files with names ending in .npy
/// are read by read_npy_images(), files with names ending in .h5 or .hdf5 by read_hdf5_images(),
/// and all other files as CSV tables:
///
///   one image per line, split by split_csv_line(): the values of all pixels, row by row from the
///   top left, with the channels of a pixel next to each other, then the label. Blank lines are
///   skipped. A first line of column names is skipped with a note.
///
/// Pixels are divided by `pixel_maximum`. Without a file for validation or testing, `held_out`
/// images of the training file are held out: equal shares of each class, spread evenly over the
/// file. Error messages refer to these numbers as data.validation_size and data.test_size.
///
/// throws  DataError from the readers; as BadLines, if a line has the wrong number of fields, a
///         pixel is not a finite number, or a label is not one word or not one of the classes; if a
///         file has no images, or fewer than `held_out` requires.
Corpus load_images(const ImageOptions& options, const HeldOutImages& held_out,
                   const std::filesystem::path& base, const Vocabulary* classes = nullptr,
                   OnBadLine on_bad_line = OnBadLine::stop);

/// Properties of the images of a file that a config must specify.
struct ImageProperties {
  std::size_t height = 0;    ///< rows of pixels
  std::size_t width = 0;     ///< pixels per row
  std::size_t channels = 0;  ///< values per pixel
  double maximum = 0.0;      ///< the largest value of a pixel
};

/// Reads the images of a file like load_images(). The shape of images in a table is guessed from
/// the number of fields: the images are square and have one or three channels.
///
/// returns  nullopt if no such image has this number of values
/// throws   DataError like load_images()
std::optional<ImageProperties> measure_images(const std::filesystem::path& path);

/// Parses a line of a table without labels. Returns the pixels, (height, width, channels), divided
/// by `pixel_maximum`.
///
/// throws  DataError, starting with `place`, if the line has the wrong number of fields or a field
///         is not a finite number.
std::vector<float> parse_image(std::string_view line, const std::string& place,
                               const ImageOptions& options);

/// Whether a line is the heading of a table without labels: one field per pixel, and no field is a
/// number.
bool is_image_heading(std::string_view line, const ImageOptions& options);

}  // namespace tapestry
