#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/options.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// Converts lines of text to ids and ids back to text with the tokenizer of a task. It needs only
/// the options and the two vocabularies, so it can be rebuilt from a checkpoint without the data.
class TextCodec {
 public:
  TextCodec(const DataOptions& options, Vocabulary source_vocabulary, Vocabulary target_vocabulary);

  /// The ids of a line, with neither <bos> nor <eos>; empty for a blank line.
  /// throws  DataError for text if the line is not valid UTF-8.
  std::vector<std::int32_t> encode_source(std::string_view line) const;
  std::vector<std::int32_t> encode_target(std::string_view line) const;

  /// The text of the ids up to the first <eos>. throws std::out_of_range as Vocabulary::token().
  std::string decode_source(std::span<const std::int32_t> ids) const;
  std::string decode_target(std::span<const std::int32_t> ids) const;

  const Vocabulary& source_vocabulary() const { return source_vocabulary_; }
  const Vocabulary& target_vocabulary() const { return target_vocabulary_; }

 private:
  Tokens tokenize(std::string_view text) const;

  Tokenizer tokenizer_;
  bool has_lines_;  // a sequence may span several lines
  Vocabulary source_vocabulary_;
  Vocabulary target_vocabulary_;
};

/// The unit of a token: `unit` for a language-model corpus, words for every other task.
TextUnit text_unit(const DataOptions& options);

/// The tokenizer of a task: words and punctuation, or characters, for text files; white space for
/// generated tasks.
Tokenizer tokenizer_for(const DataOptions& options);

}  // namespace tapestry
