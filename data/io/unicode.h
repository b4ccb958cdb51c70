#pragma once

#include <string>
#include <string_view>

/// Character properties and case mapping of Unicode 14 (utf8proc 2.8), for text in any script.
namespace tapestry {

/// The code points of a text.
///
/// throws  DataError with the byte position if the text is not valid UTF-8.
std::u32string decode_utf8(std::string_view text);

/// General category N*: decimal digits, letters such as Roman numerals, other numbers.
bool is_number(char32_t code_point);

/// General category P*: punctuation.
bool is_punctuation(char32_t code_point);

/// General category S*: mathematical signs, currency signs, modifiers, other symbols and emoji.
bool is_symbol(char32_t code_point);

/// White space as Python's str.split() defines it: the separators of Unicode, tab, line ends, and
/// U+001C to U+001F.
bool is_white_space(char32_t code_point);

/// Converts a text to lower case as Python's str.lower(): the full case mapping of Unicode in every
/// script, where capital sigma becomes a final sigma at the end of a word and U+0130 (capital I
/// with a dot) becomes two code points. to_lowercase() of utf8.h maps European letters one to one.
std::u32string lowercase(std::u32string_view text);

/// The text without white space at its end.
std::u32string_view without_trailing_space(std::u32string_view text);

}  // namespace tapestry
