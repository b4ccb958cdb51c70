// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "data/text/subwords.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// The unit of a token.
enum class TextUnit {
  character,  ///< CharacterTokenizer
  word        ///< WordTokenizer
};

/// Splits text only at white space; for generated tasks.
class SpaceTokenizer {
 public:
  /// The tokens between ASCII white space; no token is empty.
  Tokens split(std::string_view sentence) const;

  /// Joins the tokens with one space between them.
  std::string join(const Tokens& tokens) const;
};

/// Splits text of European languages into words and punctuation marks.
///
///   split  "He said: it's 3.5 well-known tests!" -> He said : it's 3.5 well-known tests !
///   join   restores the sentence, apart from unusual white space
///
/// A sentence is split at white space, and each punctuation mark (ASCII, and the usual non-ASCII
/// quotation marks, dashes and inverted marks) is a separate token, except that
///   - an apostrophe or hyphen between two letters or digits is part of the word: don't, l'eau;
///   - a period, comma or colon between two digits is part of the number: 3.5, 10,000, 10:30;
///   - a sequence of periods or of hyphens is one token: `...`, `--`.
class WordTokenizer {
 public:
  /// `lowercase`: split() converts the letters of its tokens to lower case.
  explicit WordTokenizer(bool lowercase = false) : lowercase_(lowercase) {}

  /// The tokens of a sentence.
  ///
  /// throws  DataError with the byte position if the sentence is not valid UTF-8.
  Tokens split(std::string_view sentence) const;

  /// Joins tokens to a sentence: no space before closing punctuation and after opening brackets and
  /// quotation marks; straight quotation marks alternate between opening and closing.
  std::string join(const Tokens& tokens) const;

 private:
  bool lowercase_;
};

/// Each character is a token. White space and control characters, which a vocabulary must not
/// contain, are represented by names: `<space>`, `<U+0009>`.
class CharacterTokenizer {
 public:
  /// `lowercase`: split() converts the letters of its tokens to lower case.
  explicit CharacterTokenizer(bool lowercase = false) : lowercase_(lowercase) {}

  /// The tokens of a sentence.
  ///
  /// throws  DataError with the byte position if the sentence is not valid UTF-8.
  Tokens split(std::string_view sentence) const;

  /// The concatenated characters; special symbols become U+FFFD.
  std::string join(const Tokens& tokens) const;

 private:
  bool lowercase_;
};

/// Splits text into the subwords of a SentencePiece model.
class SubwordTokenizer {
 public:
  /// model      not null
  /// lowercase  split() converts letters to lower case before tokenizing
  explicit SubwordTokenizer(std::shared_ptr<const SubwordModel> model, bool lowercase = false)
      : model_(std::move(model)), lowercase_(lowercase) {}

  /// The tokens of a sentence, see SubwordModel::split().
  ///
  /// throws  DataError with the byte position if the sentence is not valid UTF-8.
  Tokens split(std::string_view sentence) const;

  /// The text of the tokens, see SubwordModel::join().
  std::string join(const Tokens& tokens) const { return model_->join(tokens); }

 private:
  std::shared_ptr<const SubwordModel> model_;
  bool lowercase_;
};

/// Any of the tokenizers above.
using Tokenizer = std::variant<SpaceTokenizer, WordTokenizer, CharacterTokenizer, SubwordTokenizer>;

/// The tokenizer for the sentences of a vocabulary: SubwordTokenizer for subwords, otherwise
/// WordTokenizer.
Tokenizer sentence_tokenizer(const Vocabulary& vocabulary, const WordOptions& words);

/// The token of a line end in a sequence of several lines.
inline constexpr std::string_view newline_token = "<newline>";

/// The tokens of a line.
Tokens split(const Tokenizer& tokenizer, std::string_view line);

/// The tokens of a text, with newline_token after each line except the last. The last line may be
/// empty.
Tokens split_lines(const Tokenizer& tokenizer, std::string_view text);

/// The text of the tokens; each newline_token becomes a line end.
std::string join(const Tokenizer& tokenizer, const Tokens& tokens);

/// How the text of a corpus is divided into tokens.
struct TextFormat {
  Tokenizer tokenizer = SpaceTokenizer();       ///< tokenizer of lines, or of sources
  std::optional<Tokenizer> target_tokenizer{};  ///< tokenizer of targets; `tokenizer` if nullopt
  bool multiple_lines = false;                  ///< whether a sequence may span several lines
};

/// Converts lines of text to ids and ids to text. A codec needs only the text format and the two
/// vocabularies of a corpus, so a checkpoint can restore it without the data.
class TextCodec {
 public:
  /// The codec of a corpus with this text format and these vocabularies.
  TextCodec(TextFormat format, Vocabulary source_vocabulary, Vocabulary target_vocabulary);

  /// The source ids of a line, without `<bos>` and `<eos>`; empty for a blank line.
  ///
  /// throws  DataError if the line is not valid UTF-8.
  std::vector<std::int32_t> encode_source(std::string_view line) const;
  /// The target ids of a line, like encode_source().
  std::vector<std::int32_t> encode_target(std::string_view line) const;

  /// The text of source ids up to the first `<eos>`.
  ///
  /// throws  std::out_of_range like Vocabulary::token().
  std::string decode_source(std::span<const std::int32_t> ids) const;
  /// The text of target ids, like decode_source().
  std::string decode_target(std::span<const std::int32_t> ids) const;

  /// The vocabulary of sources.
  const Vocabulary& source_vocabulary() const { return source_vocabulary_; }
  /// The vocabulary of targets.
  const Vocabulary& target_vocabulary() const { return target_vocabulary_; }

  /// Whether a sequence may span several lines.
  bool multiple_lines() const { return format_.multiple_lines; }

 private:
  Tokens tokenize(const Tokenizer& tokenizer, std::string_view text) const;
  const Tokenizer& target_tokenizer() const;

  TextFormat format_;
  Vocabulary source_vocabulary_;
  Vocabulary target_vocabulary_;
};

}  // namespace tapestry
