#include "data/letter_case.h"

#include "data/utf8.h"

namespace tapestry {

namespace {

/// Capitals first, first + step, ..., last; each becomes its code point plus `offset`.
struct Capitals {
  char32_t first;
  char32_t last;
  char32_t step;
  int offset;
};

constexpr Capitals all_capitals[] = {
    {U'A', U'Z', 1, 32},
    // Latin-1 supplement, without the multiplication sign U+00D7.
    {0x00C0, 0x00D6, 1, 32},
    {0x00D8, 0x00DE, 1, 32},
    // Latin extended A and B: capital and small letters alternate.
    {0x0100, 0x012E, 2, 1},
    {0x0130, 0x0130, 1, -199},
    {0x0132, 0x0136, 2, 1},
    {0x0139, 0x0147, 2, 1},
    {0x014A, 0x0176, 2, 1},
    {0x0178, 0x0178, 1, -121},
    {0x0179, 0x017D, 2, 1},
    {0x01A0, 0x01A4, 2, 1},
    {0x01AF, 0x01AF, 1, 1},
    {0x01CD, 0x01DB, 2, 1},
    {0x01DE, 0x01EE, 2, 1},
    {0x01F8, 0x021E, 2, 1},
    {0x0222, 0x0232, 2, 1},
    // Greek.
    {0x0386, 0x0386, 1, 38},
    {0x0388, 0x038A, 1, 37},
    {0x038C, 0x038C, 1, 64},
    {0x038E, 0x038F, 1, 63},
    {0x0391, 0x03A1, 1, 32},
    {0x03A3, 0x03AB, 1, 32},
    // Cyrillic.
    {0x0400, 0x040F, 1, 80},
    {0x0410, 0x042F, 1, 32},
    {0x0460, 0x0480, 2, 1},
    {0x048A, 0x04BE, 2, 1},
    {0x04D0, 0x052E, 2, 1},
    // Latin extended additional, with the capital sharp s U+1E9E.
    {0x1E00, 0x1E94, 2, 1},
    {0x1E9E, 0x1E9E, 1, -7615},
    {0x1EA0, 0x1EFE, 2, 1},
};

}  // namespace

char32_t to_lowercase(char32_t code_point) {
  for (const Capitals& capitals : all_capitals) {
    if (code_point < capitals.first) return code_point;
    if (code_point > capitals.last) continue;
    const bool is_capital = (code_point - capitals.first) % capitals.step == 0;
    return is_capital ? code_point + static_cast<char32_t>(capitals.offset) : code_point;
  }
  return code_point;
}

std::string to_lowercase(std::string_view text) {
  std::string lowered;
  lowered.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Character character = character_at(text, position);
    append_utf8(lowered, to_lowercase(character.code_point));
    position += character.bytes.size();
  }
  return lowered;
}

}  // namespace tapestry
