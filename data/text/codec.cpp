#include "data/text/codec.h"

#include <utility>

namespace tapestry {

TextCodec::TextCodec(TextFormat format, Vocabulary source_vocabulary, Vocabulary target_vocabulary)
    : format_(format),
      source_vocabulary_(std::move(source_vocabulary)),
      target_vocabulary_(std::move(target_vocabulary)) {}

Tokens TextCodec::tokenize(const Tokenizer& tokenizer, std::string_view text) const {
  return format_.multiple_lines ? split_lines(tokenizer, text) : split(tokenizer, text);
}

const Tokenizer& TextCodec::target_tokenizer() const {
  return format_.target_tokenizer ? *format_.target_tokenizer : format_.tokenizer;
}

std::vector<std::int32_t> TextCodec::encode_source(std::string_view line) const {
  return source_vocabulary_.encode(tokenize(format_.tokenizer, line));
}

std::vector<std::int32_t> TextCodec::encode_target(std::string_view line) const {
  return target_vocabulary_.encode(tokenize(target_tokenizer(), line));
}

std::string TextCodec::decode_source(std::span<const std::int32_t> ids) const {
  return join(format_.tokenizer, source_vocabulary_.decode(ids));
}

std::string TextCodec::decode_target(std::span<const std::int32_t> ids) const {
  return join(target_tokenizer(), target_vocabulary_.decode(ids));
}

}  // namespace tapestry
