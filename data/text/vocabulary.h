#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tapestry {

/// The words and punctuation marks of a sentence, in order.
using Tokens = std::vector<std::string>;

// Ids of the special symbols, the same in every vocabulary.
inline constexpr std::int32_t pad_id = 0;  ///< pads the short rows of a batch
inline constexpr std::int32_t unk_id = 1;  ///< every word that is not in the vocabulary
inline constexpr std::int32_t bos_id = 2;  ///< first token of the decoder input
inline constexpr std::int32_t eos_id = 3;  ///< last token of a sentence
inline constexpr std::int32_t first_word_id = 4;

/// True for "<pad>", "<unk>", "<bos>" and "<eos>".
bool is_special_symbol(std::string_view token);

/// The two-way table between tokens and ids: <pad>, <unk>, <bos>, <eos>, then the words.
class Vocabulary {
 public:
  /// The special symbols alone.
  Vocabulary() : Vocabulary(Tokens{}) {}

  /// The special symbols, then `words` with ids from first_word_id in the order given.
  /// throws  DataError if a word is empty, occurs twice, spells a special symbol, is not UTF-8 or
  ///         holds white space.
  explicit Vocabulary(const Tokens& words);

  /// Reads what to_text() wrote; anything else is a DataError that names the line.
  static Vocabulary from_text(std::string_view text);

  /// One token a line in the order of the ids, special symbols included, each line ended by '\n'.
  std::string to_text() const;

  /// Number of ids, the special symbols included.
  std::size_t size() const { return tokens_.size(); }

  /// The id of a word, unk_id if it is not in the vocabulary. Text that spells a special symbol is
  /// an unknown word, so that input cannot contain an <eos>.
  std::int32_t id(std::string_view word) const;

  /// The token of an id. throws std::out_of_range unless 0 <= id < size().
  const std::string& token(std::int32_t id) const;

  /// The ids of the tokens, with neither <bos> nor <eos>.
  std::vector<std::int32_t> encode(const Tokens& tokens) const;

  /// The tokens of the ids up to the first <eos>, without <pad> and <bos>; <unk> stays.
  /// throws  std::out_of_range as token() does.
  Tokens decode(std::span<const std::int32_t> ids) const;

  friend bool operator==(const Vocabulary& a, const Vocabulary& b) {
    return a.tokens_ == b.tokens_;
  }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  void add_word(const std::string& word);

  Tokens tokens_;
  /// Words only: see id().
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
};

/// How text becomes words of a vocabulary.
struct WordOptions {
  bool lowercase = false;
  std::size_t min_frequency = 1;   ///< words seen less often in training become <unk>, >= 1
  std::size_t max_vocabulary = 0;  ///< most frequent words to keep of each language; 0 keeps all
};

/// Counts the words of a text, sentence by sentence, to make a vocabulary of the frequent ones.
class WordCounter {
 public:
  /// Counts each token of a sentence.
  void add(const Tokens& sentence);

  /// The words that were counted at least min_frequency times, most frequent first and equally
  /// frequent ones in the order of their bytes; of these the first max_words, or all if it is 0.
  /// The order in which sentences were added does not matter. Tokens that spell a special symbol
  /// get no entry: they remain unknown words.
  Vocabulary vocabulary(std::size_t min_frequency = 1, std::size_t max_words = 0) const;

 private:
  std::unordered_map<std::string, std::size_t> counts_;
};

/// The vocabulary of a training text, by options.min_frequency and options.max_vocabulary.
///
/// throws  DataError if no word reaches min_frequency.
Vocabulary frequent_words(const WordCounter& counter, const WordOptions& options);

/// Whether a label can name a class: it is one word and spells no special symbol.
bool can_be_class(std::string_view label);

/// The vocabulary of the distinct labels of a training set: first whole numbers in ascending order,
/// then all others in the order of their bytes.
///
/// labels  can_be_class() is true for each
/// throws  DataError, naming the training set by `name`, if there are fewer than two classes.
Vocabulary class_names(const std::vector<std::string>& labels, std::string_view name);

/// The names of the classes, escaped for messages: "no, yes"; of many classes the first ten.
std::string list_of_classes(const Vocabulary& classes);

/// The id of the class that a label names.
///
/// throws  DataError, which begins with `place`, if there is no such class.
std::int32_t class_id(const Vocabulary& classes, std::string_view label, const std::string& place);

}  // namespace tapestry
