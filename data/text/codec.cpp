#include "data/text/codec.h"

#include <utility>

namespace tapestry {

TextUnit text_unit(const DataOptions& options) {
  return options.task == TaskKind::text ? options.unit : TextUnit::word;
}

Tokenizer tokenizer_for(const DataOptions& options) {
  switch (options.task) {
    case TaskKind::parallel_text:
    case TaskKind::labelled_text:
      return WordTokenizer(options.lowercase);
    case TaskKind::text:
      if (text_unit(options) == TextUnit::word) return WordTokenizer(options.lowercase);
      return CharacterTokenizer(options.lowercase);
    default:
      return SpaceTokenizer();
  }
}

TextCodec::TextCodec(const DataOptions& options, Vocabulary source_vocabulary,
                     Vocabulary target_vocabulary)
    : tokenizer_(tokenizer_for(options)),
      has_lines_(options.task == TaskKind::text),
      source_vocabulary_(std::move(source_vocabulary)),
      target_vocabulary_(std::move(target_vocabulary)) {}

Tokens TextCodec::tokenize(std::string_view text) const {
  return has_lines_ ? split_lines(tokenizer_, text) : split(tokenizer_, text);
}

std::vector<std::int32_t> TextCodec::encode_source(std::string_view line) const {
  return source_vocabulary_.encode(tokenize(line));
}

std::vector<std::int32_t> TextCodec::encode_target(std::string_view line) const {
  return target_vocabulary_.encode(tokenize(line));
}

std::string TextCodec::decode_source(std::span<const std::int32_t> ids) const {
  return join(tokenizer_, source_vocabulary_.decode(ids));
}

std::string TextCodec::decode_target(std::span<const std::int32_t> ids) const {
  return join(tokenizer_, target_vocabulary_.decode(ids));
}

}  // namespace tapestry
