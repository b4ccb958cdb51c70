// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "data/corpus.h"
#include "data/readers/parallel_text.h"
#include "data/readers/training_set.h"
#include "data/text/vocabulary.h"
#include "tests/data/rejection.h"
#include "tests/support/temporary_folder.h"

namespace tapestry::test {

/// A folder with the training file train.txt, and the options for reading it with `load_text`.
template <auto load_text>
struct TextFolder {
  explicit TextFolder(std::string_view text) {
    write(text);
    files.train_text = "train.txt";
  }

  void write(std::string_view text, const char* file = "train.txt") const {
    folder.write(file, text);
  }
  Corpus load(const FixedVocabularies* fixed = nullptr) const {
    if constexpr (std::is_invocable_v<decltype(load_text), const TextFiles&, const WordOptions&,
                                      const std::filesystem::path&, const FixedVocabularies*,
                                      OnBadLine, const TrainingSetOptions&>) {
      return load_text(files, words, folder.path(), fixed, on_bad_line, training);
    } else {
      return load_text(files, words, folder.path(), fixed, on_bad_line, training.find_too_long);
    }
  }
  std::string name(const char* file = "train.txt") const { return (folder / file).string(); }

  /// The error message about a training file with these lines, without the file name.
  std::string message(std::string_view lines) const {
    write(lines);
    const std::string text = rejection([this] { load(); });
    REQUIRE(text.starts_with(name() + ":"));
    return text.substr(name().size() + 1);
  }

  /// Checks that these training files are rejected. In the message, the first of these words comes
  /// directly after the file name.
  void check_rejected_texts(std::vector<BadInput> texts) const {
    for (BadInput& bad : texts) bad.words[0] = name() + ":" + bad.words[0];
    check_rejected(texts, [this](const std::string& text) {
      write(text);
      load();
    });
  }
  /// Checks that the files are rejected, and that the error contains these words.
  void check_rejected_now(const std::vector<std::string>& message_words,
                          const FixedVocabularies* fixed = nullptr) const {
    check_rejected({{"", message_words}}, [&](const std::string&) { load(fixed); });
  }

  TemporaryFolder folder;
  TextFiles files;
  WordOptions words;
  OnBadLine on_bad_line = OnBadLine::stop;
  TrainingSetOptions training;
};

/// A folder with the parallel files train.de and train.en, for training and validation.
struct PairFolder {
  PairFolder(std::string_view source, std::string_view target) {
    write(source, target);
    options.train_source = options.validation_source = "train.de";
    options.train_target = options.validation_target = "train.en";
  }

  void write(std::string_view source, std::string_view target) const {
    folder.write("train.de", source);
    folder.write("train.en", target);
  }
  std::string name(const char* file) const { return (folder / file).string(); }
  Corpus load(const FixedVocabularies* fixed = nullptr,
              OnBadLine on_bad_line = OnBadLine::stop) const {
    return load_parallel_text(options, words, folder.path(), fixed, on_bad_line, training);
  }
  /// Checks that the files are rejected, and that the error contains these words.
  void check_rejected_now(const std::vector<std::string>& message_words) const {
    check_rejected({{"", message_words}}, [this](const std::string&) { load(); });
  }

  TemporaryFolder folder;
  ParallelTextOptions options;
  WordOptions words;
  TrainingSetOptions training;
};

}  // namespace tapestry::test
