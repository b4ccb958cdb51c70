// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"
#include "tests/fuzz/fuzz.h"

namespace tapestry::fuzz {
namespace {

std::string without_white_space(std::string_view text) {
  std::string result;
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Character character = character_at(text, position);
    if (character_kind(character.code_point) != CharacterKind::space) result += character.bytes;
    position += character.bytes.size();
  }
  return result;
}

std::string concatenated(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

void require_lines(std::string_view bytes, const std::vector<std::string>& lines) {
  const auto breaks = static_cast<std::size_t>(std::ranges::count(bytes, '\n'));
  require(lines.size() == breaks + (bytes.ends_with('\n') ? 0 : 1), "no line is lost");
  std::size_t total = breaks;
  for (const std::string& line : lines) {
    total += line.size();
    require(!find_invalid_utf8(line), "a line is UTF-8");
    require(line.find_first_of(std::string_view("\0\n", 2)) == line.npos,
            "a line has neither NUL nor line feed");
  }
  const auto returns = static_cast<std::size_t>(std::ranges::count(bytes, '\r'));
  require(total <= bytes.size() && bytes.size() <= total + returns + 3,
          "only line ends and a byte order mark are lost");
}

void require_tokens(const std::string& line) {
  const Tokens words = WordTokenizer().split(line);
  require(concatenated(words) == without_white_space(line),
          "tokens contain all characters except white space");
  const Tokens small = WordTokenizer(true).split(line);
  require(small.size() == words.size(), "lower case does not change the number of tokens");
  for (const Tokens& tokens : {words, small, SpaceTokenizer().split(line)}) {
    require(std::ranges::none_of(tokens, &std::string::empty), "no token is empty");
  }
  for (const std::string& token : small) {
    require(!find_invalid_utf8(token), "a token in lower case is UTF-8");
  }
}

/// Encodes and decodes with a vocabulary that has every word of the text.
void require_codec(const std::vector<std::string>& lines) {
  WordCounter counter;
  for (const std::string& line : lines) counter.add(WordTokenizer(true).split(line));
  const TextCodec codec({.tokenizer = WordTokenizer(true)}, counter.vocabulary(), Vocabulary());
  for (const std::string& line : lines) {
    const std::vector<std::int32_t> ids = codec.encode_source(line);
    require(std::ranges::none_of(ids, [](std::int32_t id) { return id < first_word_id; }),
            "each word of the text is in its vocabulary");
    require(without_white_space(codec.decode_source(ids)) ==
                concatenated(WordTokenizer(true).split(line)),
            "decoding restores the words");
    const auto unknown = codec.encode_target(line);
    require(std::ranges::all_of(unknown, [](std::int32_t id) { return id == unk_id; }),
            "a word that is not in the vocabulary is unknown");
  }
}

}  // namespace

/// Input: a file of sentences, one per line.
void feed_text(std::string_view bytes) {
  const std::vector<std::string> lines = read_text_file(write_input(bytes)).lines;
  require_lines(bytes, lines);
  for (const std::string& line : lines) require_tokens(line);
  require_codec(lines);
}

}  // namespace tapestry::fuzz
