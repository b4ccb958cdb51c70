// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tapestry {

/// Position, from 0, of the first byte that is not valid UTF-8; nullopt if all bytes are valid. RFC
/// 3629 excludes overlong forms, surrogates, values above U+10FFFF and truncated sequences.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// One character of a text: its code point and its bytes.
struct Utf8Character {
  char32_t code_point;
  std::string_view bytes;
};

/// The character that starts at `position` of a valid UTF-8 text, position < text.size().
Utf8Character character_at(std::string_view text, std::size_t position);

/// Appends the UTF-8 form of a code point, 1 to 4 bytes.
void append_utf8(std::string& text, char32_t code_point);

/// throws  DataError with the byte position if the text is not valid UTF-8.
void require_utf8(std::string_view text);

/// The code points of a text.
///
/// throws  DataError with the byte position if the text is not valid UTF-8.
std::u32string decode_utf8(std::string_view text);

// ---- Character classes. They must not change, because the vocabularies of trained models depend
// on them. Metrics use the definitions of Python instead, see data/metrics/python_text.h.

/// The character classes that a tokenizer distinguishes.
enum class CharacterKind { space, digit, word, punctuation };

/// The class of an ASCII character, of Unicode white space, and of the quotation marks, dashes,
/// ellipsis and inverted marks of European languages; all other characters are `word`.
CharacterKind character_kind(char32_t code_point);

/// True for a control character (C0, DEL, C1), which a terminal interprets.
bool is_control(char32_t code_point);

/// Whether a valid UTF-8 text is empty or consists of white space.
bool is_blank(std::string_view text);

/// The lower-case form of a Latin, Greek or Cyrillic capital of a living European language or of
/// Vietnamese; any other code point unchanged. Independent of the locale; uses the simple case
/// mapping of Unicode (one code point to one code point). Leaves other scripts unchanged, so that
/// the result does not depend on the version of Unicode.
char32_t lowercase_european(char32_t code_point);

/// Converts each character of a valid UTF-8 text to lower case: "Äpfel" -> "äpfel".
std::string lowercase_european(std::string_view text);

// ---- Text for terminals and messages

/// Number of terminal columns of a valid UTF-8 text: two for a wide East Asian character or an
/// emoji, zero for a combining mark or an invisible character, else one.
std::size_t display_columns(std::string_view text);

/// A valid UTF-8 text, followed by spaces up to the given number of columns.
std::string padded(std::string_view text, std::size_t columns);

/// Escapes an untrusted text, such as a file name, for a message on a terminal: control characters,
/// characters that change the direction of text and bytes that are not UTF-8 are written as \n, \t,
/// \r or \x1B; all other characters are unchanged.
std::string escaped(std::string_view text);

/// Like escaped(), but leaves line feeds and tabs unchanged, for texts of several lines.
std::string escaped_lines(std::string_view text);

/// The text with ASCII characters in place of characters that look like them, such as a no-break
/// space (U+00A0), a minus sign (U+2212) and typographic quotes, and without invisible characters,
/// such as U+200B. Bytes that are not UTF-8 are unchanged.
std::string with_plain_characters(std::string_view text);

/// Names the first character that with_plain_characters() changes: " (U+200B, which is invisible)";
/// an empty text if there is no such character. For messages that quote a name.
std::string name_odd_character(std::string_view text);

/// The first 60 characters of a text, escaped, followed by "..." if it is longer: for file contents
/// in messages.
std::string excerpt(std::string_view text);

}  // namespace tapestry
