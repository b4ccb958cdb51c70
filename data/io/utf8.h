#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tapestry {

/// Position (in bytes, from 0) of the first byte that is not UTF-8 as RFC 3629 defines it: it
/// excludes overlong forms, surrogates, values above U+10FFFF and truncated sequences.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// One character of a text: its code point and its bytes.
struct Utf8Character {
  char32_t code_point;
  std::string_view bytes;
};

/// The character that starts at `position` of a valid UTF-8 text, position < text.size().
Utf8Character character_at(std::string_view text, std::size_t position);

/// Appends the one to four bytes of a code point.
void append_utf8(std::string& text, char32_t code_point);

/// Classes of characters that a tokenizer distinguishes.
enum class CharacterKind { space, digit, word, punctuation };

/// The kind of an ASCII character, of the Unicode white space and of the quotation marks, dashes,
/// ellipsis and inverted marks of European languages; every other character belongs to words.
CharacterKind character_kind(char32_t code_point);

/// True for a mark that stays inside a word between letters or digits: ' and - and their
/// typographic forms U+2019, U+2010, U+2011.
bool joins_words(char32_t code_point);

/// True for a mark that stays inside a number between digits: . , :
bool joins_digits(char32_t code_point);

/// True for a control character (C0, DEL, C1), which a terminal executes instead of showing it.
bool is_control(char32_t code_point);

/// Whether a valid UTF-8 text is empty or white space only.
bool is_blank(std::string_view text);

/// The lower-case form of the Latin, Greek and Cyrillic capitals of living European languages and
/// Vietnamese; any other code point unchanged. Independent of the locale; one code point gives one
/// code point (the simple case mapping of the Unicode data).
char32_t to_lowercase(char32_t code_point);

/// The lower-case form of each character of a valid UTF-8 text: "Äpfel" -> "äpfel".
std::string to_lowercase(std::string_view text);

}  // namespace tapestry
