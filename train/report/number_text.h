#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Numbers as a short text for the scripts of a page, decimal so that the page prints the digits
/// that are stored.
namespace tapestry {

/// How numbers are stored in NumberText: 2, 3 or 4 characters each.
enum class NumberDigits {
  three = 3,  ///< 3 significant digits and 4 decades, 2 characters
  four = 4,   ///< 4 significant digits and 36 decades, 3 characters
  six = 6     ///< 6 significant digits and 31 decades, 4 characters
};

/// Numbers as text.
struct NumberText {
  int exponent = 0;  ///< the greatest decimal exponent of the numbers
  std::string text;  ///< characters of level_characters() (attention_text.h), `~` and spaces
};

/// The characters of a number that is not 0.
std::size_t characters_per_number(NumberDigits digits);

/// Number v = (-1)^s m 10^(e - digits + 1) with an m of `digits` digits, the first not 0, is
/// written as c = ((exponent - e) 2 + s) 9 10^(digits - 1) + m - 10^(digits - 1), from the most
/// significant character on. `~` and character n are n + 1 zeros. A space and `n`, `p`, `m`, `t`
/// or `u` are NaN, infinity, -infinity, and positive and negative numbers below the last decade.
NumberText numbers_to_text(std::span<const double> numbers, NumberDigits digits);

/// The numbers of a text. Those below the last decade are +-0.
std::vector<double> numbers_from_text(const NumberText& text, NumberDigits digits);

}  // namespace tapestry
