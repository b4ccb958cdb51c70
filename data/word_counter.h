#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "data/options.h"
#include "data/vocabulary.h"

namespace tapestry {

/// Counts the words of a text, sentence by sentence, and makes a vocabulary of the frequent ones.
class WordCounter {
 public:
  /// Counts each token of a sentence.
  void add(const Tokens& sentence);

  /// The words that were counted at least min_frequency times, most frequent first and equally
  /// frequent ones in the order of their bytes; of these the first max_words, or all if it is 0.
  /// The order in which sentences were added does not matter. Tokens that spell a special symbol
  /// are left out: they stay unknown words.
  Vocabulary vocabulary(std::size_t min_frequency = 1, std::size_t max_words = 0) const;

 private:
  std::unordered_map<std::string, std::size_t> counts_;
};

/// The vocabulary of a training text, by `min_frequency` and `max_vocabulary`.
///
/// throws  DataError if no word is so frequent.
Vocabulary frequent_words(const WordCounter& counter, const DataOptions& options);

}  // namespace tapestry
