#include "data/characters.h"

#include "data/utf8.h"

namespace tapestry {

namespace {

// U+00A0 and U+202F are the no-break spaces, U+3000 is the ideographic space.
constexpr std::u32string_view white_space = U" \t\n\v\f\r\u00A0\u202F\u205F\u3000";

// The escapes are hyphens and dashes.
constexpr std::u32string_view punctuation_beyond_ascii =
    U"«»‹›“”„‘’‚¿¡…\u2010\u2011\u2013\u2014\u2015";

bool contains(std::u32string_view set, char32_t code_point) {
  return set.find(code_point) != std::u32string_view::npos;
}

bool is_space(char32_t c) { return contains(white_space, c) || (c >= 0x2000 && c <= 0x200A); }

bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }

bool is_ascii_letter(char32_t c) { return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'); }

bool is_punctuation(char32_t c) {
  if (c > 0x7F) return contains(punctuation_beyond_ascii, c);
  return c > U' ' && c < 0x7F && !is_digit(c) && !is_ascii_letter(c);
}

}  // namespace

CharacterKind kind_of(char32_t code_point) {
  if (is_space(code_point)) return CharacterKind::space;
  if (is_digit(code_point)) return CharacterKind::digit;
  if (is_punctuation(code_point)) return CharacterKind::punctuation;
  return CharacterKind::word;
}

bool joins_words(char32_t code_point) { return contains(U"'-\u2019\u2010\u2011", code_point); }

bool joins_digits(char32_t code_point) { return contains(U".,:", code_point); }

bool is_control(char32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

bool is_blank(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Character character = character_at(text, position);
    if (kind_of(character.code_point) != CharacterKind::space) return false;
    position += character.bytes.size();
  }
  return true;
}

}  // namespace tapestry
