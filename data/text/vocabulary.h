// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tapestry {

class SubwordModel;  // defined in data/text/subwords.h

/// The tokens of a sentence, such as words and punctuation marks.
using Tokens = std::vector<std::string>;

// Ids of the special symbols, the same in every vocabulary.
inline constexpr std::int32_t pad_id = 0;         ///< padding of short rows of a batch
inline constexpr std::int32_t unk_id = 1;         ///< words that are not in the vocabulary
inline constexpr std::int32_t bos_id = 2;         ///< first token of the decoder input
inline constexpr std::int32_t eos_id = 3;         ///< last token of a sentence
inline constexpr std::int32_t first_word_id = 4;  ///< first id after the special symbols

/// True for "<pad>", "<unk>", "<bos>" and "<eos>".
bool is_special_symbol(std::string_view token);

/// A bidirectional map between tokens and ids: `<pad>`, `<unk>`, `<bos>`, `<eos>`, then the words.
/// A vocabulary of subwords also has the model that divides text into subwords.
class Vocabulary {
 public:
  /// A vocabulary of special symbols only.
  Vocabulary() : Vocabulary(Tokens{}) {}

  /// The special symbols, then `words` in the given order with ids from first_word_id.
  ///
  /// throws  DataError if a word is empty, occurs twice, equals a special symbol, is not valid
  ///         UTF-8 or contains white space.
  explicit Vocabulary(const Tokens& words);

  /// The special symbols, then the tokens of a subword model, then the words in `more`.
  ///
  /// throws  DataError if a token or word is invalid, see above; std::invalid_argument if
  ///         `subwords` is null.
  explicit Vocabulary(std::shared_ptr<const SubwordModel> subwords, const Tokens& more = {});

  /// Parses the output of to_text().
  ///
  /// throws  DataError that names the line if the text is not valid.
  static Vocabulary from_text(std::string_view text);

  /// Adds a subword model to a vocabulary whose first words are the tokens of the model.
  ///
  /// throws  DataError if the words do not match the model.
  static Vocabulary with_subwords(const Vocabulary& words,
                                  std::shared_ptr<const SubwordModel> subwords);

  /// One token per line in id order, including special symbols; each line ends with '\n'.
  std::string to_text() const;

  /// Number of ids, including special symbols.
  std::size_t size() const { return tokens_.size(); }

  /// The id of a word, or unk_id if it is not in the vocabulary. Text that equals a special symbol
  /// is an unknown word, so that input cannot contain an `<eos>`.
  std::int32_t id(std::string_view word) const;

  /// The token of an id.
  ///
  /// throws  std::out_of_range unless 0 <= id < size().
  const std::string& token(std::int32_t id) const;

  /// The ids of the tokens, without `<bos>` and `<eos>`.
  std::vector<std::int32_t> encode(const Tokens& tokens) const;

  /// The tokens of the ids up to the first `<eos>`, without `<pad>` and `<bos>`; `<unk>` is kept.
  ///
  /// throws  std::out_of_range like token().
  Tokens decode(std::span<const std::int32_t> ids) const;

  /// The model that divides text into the words; null for a vocabulary without subwords.
  const std::shared_ptr<const SubwordModel>& subwords() const { return subwords_; }

  /// Whether both vocabularies have the same tokens and, for subwords, the same model.
  friend bool operator==(const Vocabulary& a, const Vocabulary& b);

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  void add_word(const std::string& word);

  Tokens tokens_;
  std::shared_ptr<const SubwordModel> subwords_;  ///< may be null
  /// Ids of words, without special symbols: see id().
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
};

/// Subword tokenization with SentencePiece (Kudo and Richardson 2018).
enum class SubwordKind {
  none,     ///< no subwords: words or characters
  unigram,  ///< a unigram language model of pieces (Kudo 2018), trained on the training text
  bpe,      ///< byte-pair encoding (Sennrich et al. 2016), trained on the training text
  file      ///< the model in the file SubwordOptions::file
};

/// The Unicode normalization of text before it is divided, with the names of SentencePiece.
enum class TextNormalization {
  nmt_nfkc,     ///< NFKC, and Unicode white space becomes ASCII spaces
  nfkc,         ///< NFKC
  nmt_nfkc_cf,  ///< nmt_nfkc with case folding
  nfkc_cf,      ///< nfkc with case folding
  identity      ///< no normalization
};

/// Subword regularization: how the segmentation of a training sentence varies from epoch to epoch.
struct SubwordSampling {
  /// For unigram models, > 0: each segmentation x is drawn with probability proportional to
  /// P(x)^alpha (Kudo 2018). If nullopt, the most probable segmentation is always used.
  std::optional<double> alpha{};
  /// For BPE models, in [0, 1): probability of dropping each merge at each step (Provilkov et al.
  /// 2020, "BPE-Dropout").
  double dropout = 0.0;

  /// Whether segmentations vary between epochs.
  bool active() const { return alpha.has_value() || dropout > 0.0; }
};

/// Options of a vocabulary of subwords.
struct SubwordOptions {
  SubwordKind kind = SubwordKind::none;  ///< kind of subwords, or none
  std::size_t vocabulary_size = 8000;  ///< number of ids, including special symbols and bytes, >= 5
  double character_coverage = 0.9995;  ///< share of characters with a piece, in [0.98, 1]
  bool byte_fallback = false;  ///< characters without a piece become UTF-8 bytes, not `<unk>`
  /// Normalization that is applied before the text is divided.
  TextNormalization normalization = TextNormalization::nmt_nfkc;
  std::string file{};          ///< for SubwordKind::file: a .model file of SentencePiece
  std::string target_file{};   ///< .model file of a separate target vocabulary
  SubwordSampling sampling{};  ///< segmentation of training sentences
};

/// Options of a vocabulary of words.
struct WordOptions {
  bool lowercase = false;          ///< whether letters become lower case
  std::size_t min_frequency = 1;   ///< words with a smaller count become `<unk>`; >= 1
  std::size_t max_vocabulary = 0;  ///< maximum number of words per language; 0 for no limit
  SubwordOptions subwords{};       ///< options of subwords, which replace words
};

/// Counts the words of sentences and makes a vocabulary of the frequent words.
class WordCounter {
 public:
  /// Counts each token of a sentence.
  void add(const Tokens& sentence);

  /// The words with a count of at least min_frequency, sorted by decreasing count; words with equal
  /// counts are sorted by their bytes. Only the first max_words words are kept; 0 keeps all words.
  /// The result does not depend on the order of the sentences. Tokens that equal a special symbol
  /// are left out and therefore remain unknown words.
  Vocabulary vocabulary(std::size_t min_frequency = 1, std::size_t max_words = 0) const;

  /// Number of distinct words, including rare words.
  std::size_t different_words() const { return counts_.size(); }

 private:
  std::unordered_map<std::string, std::size_t> counts_;
};

/// The vocabulary of a training text, with options.min_frequency and options.max_vocabulary.
///
/// throws  DataError if no word reaches min_frequency.
Vocabulary frequent_words(const WordCounter& counter, const WordOptions& options);

/// Whether a label is a valid class name: one word that does not equal a special symbol.
bool can_be_class(std::string_view label);

/// The vocabulary of the distinct labels of a training set: whole numbers in ascending order, then
/// other labels in the order of their bytes.
///
/// labels  can_be_class() must be true for each label
/// throws  DataError if there are fewer than two classes; `name` is the name of the training set in
///         the message.
Vocabulary class_names(const std::vector<std::string>& labels, std::string_view name);

/// Adds notes about classes that differ only in case, in invisible characters or in characters that
/// look alike. The notes name these characters by code point.
void note_similar_classes(const Vocabulary& classes, std::vector<std::string>& notes);

/// The class names, escaped for messages: "no, yes"; at most the first ten.
std::string list_of_classes(const Vocabulary& classes);

/// The id of the class with this name.
///
/// throws  DataError, starting with `place`, if there is no such class.
std::int32_t class_id(const Vocabulary& classes, std::string_view label, const std::string& place);

}  // namespace tapestry
