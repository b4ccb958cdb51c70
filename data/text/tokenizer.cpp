// SPDX-License-Identifier: BSD-3-Clause
#include "data/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/number.h"
#include "data/io/utf8.h"

namespace tapestry {

namespace {

constexpr std::string_view space_token = "<space>";

/// The code point of a token such as "<U+000A>"; nullopt for other tokens.
std::optional<char32_t> parse_code_point(std::string_view token) {
  constexpr std::string_view begin = "<U+";
  if (!token.starts_with(begin) || !token.ends_with('>')) return std::nullopt;
  token.remove_prefix(begin.size());
  token.remove_suffix(1);
  const auto number = parse_number<std::uint32_t>(token, 16);
  const bool is_surrogate = number && *number >= 0xD800 && *number <= 0xDFFF;
  if (!number || *number > 0x10FFFF || is_surrogate) return std::nullopt;
  return static_cast<char32_t>(*number);
}

std::vector<Utf8Character> decode_characters(std::string_view sentence) {
  require_utf8(sentence);
  std::vector<Utf8Character> characters;
  characters.reserve(sentence.size());
  for (std::size_t position = 0; position < sentence.size();) {
    characters.push_back(character_at(sentence, position));
    position += characters.back().bytes.size();
  }
  return characters;
}

bool is_word_part(CharacterKind kind) {
  return kind == CharacterKind::word || kind == CharacterKind::digit;
}

/// Whether a mark is part of a word between letters or digits.
bool joins_words(char32_t c) {
  return c == U'\'' || c == U'-' || (c >= 0x2010 && c <= 0x2011) || c == 0x2019;
}

/// Whether a mark is part of a number between digits.
bool joins_digits(char32_t c) { return c == U'.' || c == U',' || c == U':'; }

/// Whether the mark at `i`, which follows a letter or digit, is part of the word or number.
bool is_inside_word(std::span<const Utf8Character> characters, std::size_t i) {
  if (i + 1 == characters.size()) return false;
  const CharacterKind before = character_kind(characters[i - 1].code_point);
  const CharacterKind after = character_kind(characters[i + 1].code_point);
  const char32_t mark = characters[i].code_point;
  if (joins_words(mark)) return is_word_part(after);
  if (!joins_digits(mark)) return false;
  return before == CharacterKind::digit && after == CharacterKind::digit;
}

/// The end of the token that starts at `begin`. The character at `begin` is not white space.
std::size_t token_end(std::span<const Utf8Character> characters, std::size_t begin) {
  const char32_t first = characters[begin].code_point;
  std::size_t end = begin + 1;
  if (is_word_part(character_kind(first))) {
    while (end < characters.size() && (is_word_part(character_kind(characters[end].code_point)) ||
                                       is_inside_word(characters, end))) {
      ++end;
    }
  } else if (first == U'.' || first == U'-') {
    while (end < characters.size() && characters[end].code_point == first) ++end;
  }
  return end;
}

std::string concatenate(std::span<const Utf8Character> characters) {
  std::string text;
  for (const Utf8Character& character : characters) text += character.bytes;
  return text;
}

/// The sides on which a token is joined to its neighbors without a space.
struct Attachment {
  bool left = false;
  bool right = false;
};

/// Determines the attachment of each token, from first to last. Keeps track of open quotation
/// marks.
class Joiner {
 public:
  Attachment attachment(std::string_view token) {
    const auto is_token = [token](std::string_view mark) { return mark == token; };
    if (std::ranges::any_of(closing, is_token)) return {.left = true};
    if (std::ranges::any_of(opening, is_token)) return {.right = true};
    if (token == "/") return {.left = true, .right = true};
    if (token == "\"") return toggle(double_open_);
    if (token == "'") return toggle(single_open_);
    if (token == "„") {
      low_open_ = true;
      return {.right = true};
    }
    // An opening mark in English, but the closing mark for „ in German.
    if (token == "“") {
      const bool closes = std::exchange(low_open_, false);
      return {.left = closes, .right = !closes};
    }
    return {};
  }

 private:
  static constexpr std::string_view closing[] = {".", ",", ";",   ":", "!", "?", ")", "]",
                                                 "}", "%", "...", "…", "»", "›", "”", "’"};
  static constexpr std::string_view opening[] = {"(", "[", "{", "$", "#", "@",
                                                 "¿", "¡", "«", "‹", "‘", "‚"};

  static Attachment toggle(bool& open) {
    open = !open;
    return {.left = !open, .right = open};
  }

  bool double_open_ = false;
  bool single_open_ = false;
  bool low_open_ = false;
};

}  // namespace

Tokens SpaceTokenizer::split(std::string_view sentence) const {
  constexpr std::string_view white_space = " \t\n\v\f\r";
  Tokens tokens;
  std::size_t begin = sentence.find_first_not_of(white_space);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(sentence.find_first_of(white_space, begin), sentence.size());
    tokens.emplace_back(sentence.substr(begin, end - begin));
    begin = sentence.find_first_not_of(white_space, end);
  }
  return tokens;
}

std::string SpaceTokenizer::join(const Tokens& tokens) const {
  return fmt::format("{}", fmt::join(tokens, " "));
}

Tokens WordTokenizer::split(std::string_view sentence) const {
  const std::vector<Utf8Character> characters = decode_characters(sentence);
  Tokens tokens;
  for (std::size_t begin = 0; begin < characters.size();) {
    if (character_kind(characters[begin].code_point) == CharacterKind::space) {
      ++begin;
      continue;
    }
    const std::size_t end = token_end(characters, begin);
    const std::string token = concatenate(std::span(characters).subspan(begin, end - begin));
    tokens.push_back(lowercase_ ? lowercase_european(token) : token);
    begin = end;
  }
  return tokens;
}

std::string WordTokenizer::join(const Tokens& tokens) const {
  std::string sentence;
  Joiner joiner;
  bool touches_next = true;
  for (const std::string& token : tokens) {
    const Attachment attachment = joiner.attachment(token);
    if (!touches_next && !attachment.left) sentence += ' ';
    sentence += token;
    touches_next = attachment.right;
  }
  return sentence;
}

Tokens CharacterTokenizer::split(std::string_view sentence) const {
  Tokens tokens;
  for (const Utf8Character& character : decode_characters(sentence)) {
    const char32_t code_point = character.code_point;
    if (code_point == U' ') {
      tokens.emplace_back(space_token);
    } else if (is_control(code_point) || character_kind(code_point) == CharacterKind::space) {
      tokens.push_back(fmt::format("<U+{:04X}>", static_cast<std::uint32_t>(code_point)));
    } else {
      tokens.push_back(lowercase_ ? lowercase_european(character.bytes)
                                  : std::string(character.bytes));
    }
  }
  return tokens;
}

std::string CharacterTokenizer::join(const Tokens& tokens) const {
  std::string text;
  for (const std::string& token : tokens) {
    if (token == space_token) {
      text += ' ';
    } else if (const auto code_point = parse_code_point(token)) {
      append_utf8(text, *code_point);
    } else {
      text += is_special_symbol(token) ? "\uFFFD" : token;
    }
  }
  return text;
}

Tokens SubwordTokenizer::split(std::string_view sentence) const {
  require_utf8(sentence);
  return model_->split(lowercase_ ? lowercase_european(sentence) : std::string(sentence));
}

Tokenizer sentence_tokenizer(const Vocabulary& vocabulary, const WordOptions& words) {
  if (vocabulary.subwords()) return SubwordTokenizer(vocabulary.subwords(), words.lowercase);
  return WordTokenizer(words.lowercase);
}

Tokens split(const Tokenizer& tokenizer, std::string_view line) {
  return std::visit([line](const auto& chosen) { return chosen.split(line); }, tokenizer);
}

Tokens split_lines(const Tokenizer& tokenizer, std::string_view text) {
  Tokens tokens;
  while (true) {
    const std::size_t end = text.find('\n');
    const Tokens line_tokens = split(tokenizer, text.substr(0, end));
    tokens.insert(tokens.end(), line_tokens.begin(), line_tokens.end());
    if (end == std::string_view::npos) return tokens;
    tokens.emplace_back(newline_token);
    text.remove_prefix(end + 1);
  }
}

std::string join(const Tokenizer& tokenizer, const Tokens& tokens) {
  const auto join_line = [&](auto begin, auto end) {
    return std::visit([&](const auto& chosen) { return chosen.join(Tokens(begin, end)); },
                      tokenizer);
  };
  std::string text;
  auto begin = tokens.begin();
  for (auto end = begin; (end = std::find(begin, tokens.end(), newline_token)) != tokens.end();
       begin = end + 1) {
    text += join_line(begin, end) + '\n';
  }
  return text + join_line(begin, tokens.end());
}

TextCodec::TextCodec(TextFormat format, Vocabulary source_vocabulary, Vocabulary target_vocabulary)
    : format_(std::move(format)),
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
