#include "data/codec.h"

#include <utility>

namespace tapestry {

namespace {

Tokens split(const Tokenizer& tokenizer, std::string_view line) {
  return std::visit([line](const auto& chosen) { return chosen.split(line); }, tokenizer);
}

std::string join(const Tokenizer& tokenizer, const Tokens& tokens) {
  return std::visit([&tokens](const auto& chosen) { return chosen.join(tokens); }, tokenizer);
}

}  // namespace

Tokenizer tokenizer_for(const DataOptions& options) {
  if (options.task == TaskKind::parallel_text) return WordTokenizer(options.lowercase);
  return SpaceTokenizer();
}

TextCodec::TextCodec(const DataOptions& options, Vocabulary source_vocabulary,
                     Vocabulary target_vocabulary)
    : tokenizer_(tokenizer_for(options)),
      source_vocabulary_(std::move(source_vocabulary)),
      target_vocabulary_(std::move(target_vocabulary)) {}

std::vector<std::int32_t> TextCodec::encode_source(std::string_view line) const {
  return source_vocabulary_.encode(split(tokenizer_, line));
}

std::vector<std::int32_t> TextCodec::encode_target(std::string_view line) const {
  return target_vocabulary_.encode(split(tokenizer_, line));
}

std::string TextCodec::decode_source(std::span<const std::int32_t> ids) const {
  return join(tokenizer_, source_vocabulary_.decode(ids));
}

std::string TextCodec::decode_target(std::span<const std::int32_t> ids) const {
  return join(tokenizer_, target_vocabulary_.decode(ids));
}

}  // namespace tapestry
