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
inline constexpr std::int32_t pad_id = 0;  ///< fills up the short rows of a batch
inline constexpr std::int32_t unk_id = 1;  ///< stands for every word that is not in the vocabulary
inline constexpr std::int32_t bos_id = 2;  ///< begins what the decoder reads
inline constexpr std::int32_t eos_id = 3;  ///< ends a sentence
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
  /// an unknown word: input cannot smuggle in an <eos>.
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

}  // namespace tapestry
