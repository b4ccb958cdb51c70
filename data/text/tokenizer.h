#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "data/text/subwords.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// The unit of a token.
enum class TextUnit {
  character,  ///< CharacterTokenizer
  word        ///< WordTokenizer
};

/// Splits only at white space (generated tasks).
class SpaceTokenizer {
 public:
  /// Splits at ASCII white space; no token is empty.
  Tokens split(std::string_view sentence) const;

  /// The tokens with one space between them.
  std::string join(const Tokens& tokens) const;
};

/// Splits text of European languages into words and punctuation marks.
///
///   split  "He said: it's 3.5 well-known tests!" -> He said : it's 3.5 well-known tests !
///   join   the inverse
///
/// A sentence is split at white space, and each punctuation mark (ASCII, and the usual non-ASCII
/// quotation marks, dashes and inverted marks) is a separate token, except that
///   - an apostrophe or hyphen between two letters or digits is part of the word: don't, l'eau;
///   - a point, comma or colon between two digits is part of the number: 3.5, 10,000, 10:30;
///   - a sequence of points or of hyphens is one token: `...`, `--`.
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

/// The tokens are subwords of a SentencePiece model.
class SubwordTokenizer {
 public:
  /// model      not null
  /// lowercase  split() converts letters to lower case before it divides the text
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

/// One of the tokenizers.
using Tokenizer = std::variant<SpaceTokenizer, WordTokenizer, CharacterTokenizer, SubwordTokenizer>;

/// The tokenizer for sentences of a vocabulary: its subwords, or else words and punctuation marks.
Tokenizer sentence_tokenizer(const Vocabulary& vocabulary, const WordOptions& words);

/// The token for a line end inside a sequence of several lines.
inline constexpr std::string_view newline_token = "<newline>";

/// The tokens of a line.
Tokens split(const Tokenizer& tokenizer, std::string_view line);

/// The tokens of a text, with newline_token after each line except the last, which may be empty.
Tokens split_lines(const Tokenizer& tokenizer, std::string_view text);

/// The text of tokens; each newline_token becomes a line end.
std::string join(const Tokenizer& tokenizer, const Tokens& tokens);

}  // namespace tapestry
