// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Text functions that return the same results as Python 3, on which sacreBLEU is based. They
/// support every script. utf8proc 2.8 and Python 3.11 agree on all characters of Unicode 14.
namespace tapestry::python {

/// General category N*: decimal digits, letters such as Roman numerals, other numbers.
bool is_number(char32_t code_point);

/// General category P*: punctuation.
bool is_punctuation(char32_t code_point);

/// General category S*: mathematical signs, currency signs, modifiers, other symbols and emoji.
bool is_symbol(char32_t code_point);

/// Like str.isspace(): the separators of Unicode, tab, line ends, and U+001C to U+001F.
bool is_space(char32_t code_point);

/// Like str.lower(): the full case mapping of Unicode, where capital sigma becomes a final sigma at
/// the end of a word and U+0130 (capital I with a dot) becomes two code points.
std::u32string lower(std::u32string_view text);

/// The text without white space at its end.
std::u32string_view rstrip(std::u32string_view text);

/// The text without white space at its beginning.
std::u32string_view lstrip(std::u32string_view text);

/// Like str.split(): the words between white space, as views into `text`.
std::vector<std::u32string_view> split(std::u32string_view text);

}  // namespace tapestry::python
