#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tapestry {

/// The kinds of corpora, see data/corpora/.
enum class TaskKind {
  copy,  // generated pairs of sequences
  reverse,
  sort,
  toy_translation,  // generated sentence pairs of the toy language
  parallel_text,    // two files with a sentence and its translation on line n
  text,             // language-model corpus: windows of a text file
  toy_sentences,    // generated sentences of the toy language
  labelled_text,    // a file with a label and a sentence a line
  toy_agreement,    // generated sentences, classified by whether their words agree
  images,           // CSV or HDF5 files of images with labels
};

/// The unit of a token.
enum class TextUnit { character, word };

/// The data section of a config. The member initialisers are the defaults.
struct DataOptions {
  TaskKind task = TaskKind::copy;

  // Generated tasks.
  std::size_t num_symbols = 20;        ///< copy, reverse, sort: different symbols, >= 2
  std::size_t min_length = 1;          ///< copy, reverse, sort: shortest sequence, >= 1
  std::size_t max_length = 16;         ///< copy, reverse, sort: longest sequence, >= min_length
  std::size_t train_size = 20000;      ///< sequences to train on
  std::size_t validation_size = 1000;  ///< held-out sequences, all different
  std::size_t test_size = 1000;        ///< held-out sequences, all different
  std::uint64_t seed = 1;              ///< of the generated sequences

  // parallel_text: paths are relative to the folder of the config file.
  std::string train_source, train_target;
  std::string validation_source, validation_target;
  std::string test_source, test_target;  ///< optional: empty means there is no test set
  bool lowercase = false;
  std::size_t min_frequency = 1;   ///< words seen less often in training become <unk>, >= 1
  std::size_t max_vocabulary = 0;  ///< most frequent words to keep on each side; 0 keeps all
  bool shared_vocabulary = false;  ///< one vocabulary for both sides
  std::size_t max_tokens = 0;      ///< training pairs with a longer side are skipped; 0 keeps all

  // text, labelled_text.
  std::string train_text, validation_text, test_text;  ///< the last two may be empty
  TextUnit unit = TextUnit::character;
  std::size_t context = 64;       ///< text: tokens of a window, >= 1
  double validation_share = 0.1;  ///< text: held-out end of train_text without validation_text

  // images.
  std::string train_images, validation_images, test_images;  ///< the last two may be empty
  std::size_t image_height = 8, image_width = 8, image_channels = 1;
  double pixel_maximum = 255.0;  ///< the value of a pixel that becomes 1, > 0
};

}  // namespace tapestry
