#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tapestry {

/// Where sentence pairs come from: generated (copy, reverse, sort, toy_translation) or two text
/// files with one sentence a line (parallel_text).
enum class TaskKind { copy, reverse, sort, toy_translation, parallel_text };

/// What a run learns from. The member initialisers are the defaults.
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
  std::size_t max_tokens = 0;      ///< training pairs with a longer side are left out; 0 keeps all
};

}  // namespace tapestry
