#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// How a corpus divides text into tokens.
struct TextFormat {
  Tokenizer tokenizer = SpaceTokenizer();       ///< how a line becomes tokens
  std::optional<Tokenizer> target_tokenizer{};  ///< the same for targets; nullopt: as tokenizer
  bool multiple_lines = false;                  ///< whether a sequence may span several lines
};

/// Converts lines of text to ids and ids to text. Needs only the text format and the two
/// vocabularies of a corpus, so it can be restored from a checkpoint without the data.
class TextCodec {
 public:
  /// The codec of a corpus with this text format and these vocabularies.
  TextCodec(TextFormat format, Vocabulary source_vocabulary, Vocabulary target_vocabulary);

  /// The source ids of a line, without `<bos>` and `<eos>`; empty for a blank line.
  ///
  /// throws  DataError if the line is not valid UTF-8.
  std::vector<std::int32_t> encode_source(std::string_view line) const;
  /// The same with the target vocabulary.
  std::vector<std::int32_t> encode_target(std::string_view line) const;

  /// The text of source ids up to the first `<eos>`.
  ///
  /// throws  std::out_of_range as Vocabulary::token().
  std::string decode_source(std::span<const std::int32_t> ids) const;
  /// The same with the target vocabulary.
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
