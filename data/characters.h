#pragma once

#include <string_view>

namespace tapestry {

/// What a tokenizer sees in a character.
enum class CharacterKind { space, digit, word, punctuation };

/// ASCII by its table; beyond it the white space of Unicode and the quotation marks, dashes,
/// ellipsis and inverted marks of European languages; everything else belongs to words.
CharacterKind kind_of(char32_t code_point);

/// A mark that stays inside a word when letters or digits stand on both sides: ' and - and their
/// typographic forms U+2019, U+2010, U+2011.
bool joins_words(char32_t code_point);

/// A mark that stays inside a number when digits stand on both sides: . , :
bool joins_digits(char32_t code_point);

/// A character that a terminal obeys instead of showing it: C0, DEL, C1.
bool is_control(char32_t code_point);

/// Whether a valid UTF-8 text is empty or white space alone.
bool is_blank(std::string_view text);

}  // namespace tapestry
