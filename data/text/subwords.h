// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/io/error.h"
#include "data/text/vocabulary.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tapestry {

/// The parts of a SentencePiece model file that Tapestry relies on. The file is a protocol buffer,
/// a `ModelProto` of sentencepiece_model.proto.
struct SentencePieceModel {
  /// SentencePiece::Type of the proto.
  enum class Type : std::uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };

  /// An entry of the vocabulary of a SentencePiece model.
  struct Piece {
    std::string text;          ///< with U+2581 instead of spaces
    float score = 0;           ///< unigram: log probability; bpe: higher scores are merged first
    Type type = Type::normal;  ///< type of the piece

    /// True for pieces that occur in segmentations: all except control, unknown and unused pieces.
    bool is_token() const {
      return type == Type::normal || type == Type::user_defined || type == Type::byte;
    }
  };

  std::vector<Piece> pieces{};  ///< in the order of their ids in SentencePiece
  bool bpe = false;             ///< true for byte-pair encoding, false for a unigram language model
};

/// Parses the content of a .model file and checks properties that SentencePiece relies on but does
/// not check, so that a damaged file cannot crash it: pieces are UTF-8 without NUL and not too
/// long, scores are finite, and the double-array trie of the normalization stays within its bounds.
///
/// name    name of the file, for messages
/// throws  DataError if the content is not a unigram or BPE model of SentencePiece.
SentencePieceModel parse_sentencepiece_model(std::string_view content, const std::string& name);

/// A SentencePiece model, which divides text into subwords, such as "▁play" and "ing"; U+2581
/// represents a space. Immutable; several threads may use a model at the same time.
///
/// The tokens are the pieces of the model, in the order of the model, without control, unknown and
/// unused symbols. The words of a vocabulary cannot contain white space or equal its special
/// symbols. Models trained by other programs may have such pieces. In their tokens, white space is
/// written like <U+0009>, and the '<' of a special symbol as <U+003C>.
class SubwordModel {
 public:
  /// serialized  the content of a .model file of SentencePiece, of type unigram or BPE
  /// name        name of the file, for messages
  /// throws      DataError if the content is not such a model, or is damaged.
  explicit SubwordModel(std::string serialized, const std::string& name = "subword model");
  ~SubwordModel();
  SubwordModel(const SubwordModel&) = delete;
  SubwordModel& operator=(const SubwordModel&) = delete;

  /// The content of the .model file.
  const std::string& serialized() const { return serialized_; }

  /// All tokens; the id of token i in a vocabulary is first_word_id + i.
  const Tokens& tokens() const { return tokens_; }

  /// The parsed model, with its pieces in the order of the file.
  const SentencePieceModel& model() const { return model_; }

  /// Normalizes a text without line ends and returns its most probable segmentation; characters
  /// without a piece become "<unk>". The result is empty if nothing remains after normalization.
  ///
  /// throws  DataError if the model is inconsistent, like join().
  Tokens split(std::string_view text) const;

  /// Returns the text of the tokens; `<unk>` becomes " ⁇ ", and bytes that are not UTF-8 become
  /// U+FFFD. split() of this text returns an equivalent segmentation.
  std::string join(const Tokens& tokens) const;

 private:
  std::string serialized_;
  SentencePieceModel model_;
  Tokens tokens_;
  std::vector<std::size_t> token_of_piece_;  ///< by SentencePiece id; may be no_token
  std::unordered_map<std::string, int> piece_of_token_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> sentencepiece_;
};

/// Thrown if a text has fewer subwords than data.vocabulary_size.
class VocabularyTooLarge : public DataError {
 public:
  /// size   the requested number of subwords
  /// place  origin of the text
  VocabularyTooLarge(std::size_t size, std::size_t max_size, const std::string& place);
  /// The maximum number of subwords for the text.
  std::size_t max_size() const { return max_size_; }

 private:
  std::size_t max_size_;
};

/// Trains a model on sentences. The result does not depend on the order of the sentences or on the
/// number of threads.
///
/// sentences  UTF-8 without line ends and NUL
/// options    with kind SubwordKind::unigram or bpe
/// place      origin of the sentences in messages, such as a config key
/// throws     VocabularyTooLarge if the vocabulary is too large for the text; DataError if it is
/// too
///            small. Both name the nearest possible size.
std::shared_ptr<const SubwordModel> train_subwords(std::span<const std::string> sentences,
                                                   const SubwordOptions& options,
                                                   const std::string& place);

}  // namespace tapestry
