#pragma once

#include <string>
#include <string_view>

namespace tapestry {

/// The small form of a Latin, Greek or Cyrillic capital that a living European language or
/// Vietnamese writes; any other code point as it is. Independent of the locale; one code point
/// gives one code point (the simple mapping of the Unicode data).
char32_t to_lowercase(char32_t code_point);

/// The same for each character of a valid UTF-8 text: "Äpfel" -> "äpfel".
std::string to_lowercase(std::string_view text);

}  // namespace tapestry
