// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/readers/images.h"
#include "tests/data/rejection.h"
#include "tests/support/temporary_folder.h"

namespace tapestry::test {

/// A folder with a training file of images of 1 x 2 pixels, and options that read it.
struct ImageFolder {
  explicit ImageFolder(const char* file) {
    options.train_images = file;
    options.image_height = 1;
    options.image_width = 2;
  }

  void write(std::string_view bytes) const { folder.write(options.train_images, bytes); }
  std::string name(const char* file) const { return (folder / file).string(); }
  Corpus load(const Vocabulary* classes = nullptr, OnBadLine on_bad_line = OnBadLine::stop) const {
    return load_images(options, held_out, folder.path(), classes, on_bad_line);
  }
  /// The label of each training image.
  std::vector<std::string> labels() const {
    std::vector<std::string> names;
    const Corpus corpus = load();
    for (const Example& image : corpus.train) {
      names.push_back(corpus.target_vocabulary.token(image.target.front()));
    }
    return names;
  }

  /// Checks that these training files are rejected.
  void check_rejected_files(const std::vector<BadInput>& files) const {
    check_rejected(files, [this](const std::string& bytes) {
      write(bytes);
      load();
    });
  }
  /// Checks that the files are rejected, and that the error contains these words.
  void check_rejected_now(const std::vector<std::string>& words,
                          const Vocabulary* classes = nullptr) const {
    check_rejected({{"", words}}, [&](const std::string&) { load(classes); });
  }

  TemporaryFolder folder;
  ImageOptions options;
  HeldOutImages held_out{.validation = 0, .test = 0};
};

}  // namespace tapestry::test
