// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace tapestry {

/// Parses a text that consists of one number, independently of the locale. Returns nullopt for
/// other text, such as "", " 1", "+1" or "1x", and for a number that T cannot represent.
/// Floating-point numbers may be "inf" or "nan".
///
/// base  of integers, 2 to 36
template <typename T>
std::optional<T> parse_number(std::string_view text, int base = 10) {
  T value{};
  const char* const end = text.data() + text.size();
  std::from_chars_result result{};
  if constexpr (std::integral<T>) {
    result = std::from_chars(text.data(), end, value, base);
  } else {
    result = std::from_chars(text.data(), end, value);
  }
  const bool is_whole = result.ec == std::errc() && result.ptr == end;
  return is_whole ? std::optional(value) : std::nullopt;
}

}  // namespace tapestry
