#pragma once

#include <array>
#include <string_view>

namespace tapestry {

/// Of UTF-8.
inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// An encoding that is not UTF-8.
struct OtherEncoding {
  std::string_view mark;    ///< its byte order mark
  std::string_view name;    ///< for a message
  std::string_view family;  ///< what iconv calls it where there is a mark
};

/// The encoding whose byte order mark a text starts with, or null.
inline const OtherEncoding* other_encoding_of(std::string_view text) {
  using namespace std::string_view_literals;
  // UTF-32 first: in little-endian order its mark begins with that of UTF-16.
  static constexpr std::array<OtherEncoding, 4> encodings{{
      {"\xFF\xFE\0\0"sv, "little-endian UTF-32", "UTF-32"},
      {"\0\0\xFE\xFF"sv, "big-endian UTF-32", "UTF-32"},
      {"\xFF\xFE"sv, "little-endian UTF-16", "UTF-16"},
      {"\xFE\xFF"sv, "big-endian UTF-16", "UTF-16"},
  }};
  for (const OtherEncoding& encoding : encodings) {
    if (text.starts_with(encoding.mark)) return &encoding;
  }
  return nullptr;
}

}  // namespace tapestry
