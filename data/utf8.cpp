#include "data/utf8.h"

#include <iterator>

namespace tapestry {

namespace {

/// A form of encoding: `lead` are the fixed bits of its first byte, and code points below
/// `smallest` belong to a shorter form.
struct Form {
  std::size_t length;
  unsigned char lead_mask;
  unsigned char lead;
  char32_t smallest;
};

constexpr Form forms[] = {
    {1, 0x80, 0x00, 0x0},
    {2, 0xE0, 0xC0, 0x80},
    {3, 0xF0, 0xE0, 0x800},
    {4, 0xF8, 0xF0, 0x10000},
};

const Form* form_of(unsigned char lead) {
  for (const Form& form : forms) {
    if ((lead & form.lead_mask) == form.lead) return &form;
  }
  return nullptr;
}

unsigned char byte_at(std::string_view text, std::size_t position) {
  return static_cast<unsigned char>(text[position]);
}

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

char32_t decode(std::string_view bytes, const Form& form) {
  char32_t code_point = byte_at(bytes, 0) & static_cast<unsigned char>(~form.lead_mask);
  for (std::size_t i = 1; i < form.length; ++i) {
    code_point = (code_point << 6) | (byte_at(bytes, i) & 0x3Fu);
  }
  return code_point;
}

bool is_scalar_value(char32_t code_point) {
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  return code_point <= 0x10FFFF && !surrogate;
}

/// Length of the valid character at the front of `text`, 0 if there is none.
std::size_t valid_length(std::string_view text) {
  const Form* form = form_of(byte_at(text, 0));
  if (form == nullptr || text.size() < form->length) return 0;
  for (std::size_t i = 1; i < form->length; ++i) {
    if (!is_continuation(byte_at(text, i))) return 0;
  }
  const char32_t code_point = decode(text, *form);
  return code_point >= form->smallest && is_scalar_value(code_point) ? form->length : 0;
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    const std::size_t length = valid_length(text.substr(position));
    if (length == 0) return position;
    position += length;
  }
  return std::nullopt;
}

Utf8Character character_at(std::string_view text, std::size_t position) {
  const Form& form = *form_of(byte_at(text, position));
  const std::string_view bytes = text.substr(position, form.length);
  return {decode(bytes, form), bytes};
}

void append_utf8(std::string& text, char32_t code_point) {
  std::size_t length = 1;
  while (length < std::size(forms) && code_point >= forms[length].smallest) ++length;
  const Form& form = forms[length - 1];
  for (std::size_t i = 0; i < length; ++i) {
    const char32_t bits = code_point >> (6 * (length - 1 - i));
    const char32_t byte = i == 0 ? (form.lead | bits) : (0x80 | (bits & 0x3F));
    text.push_back(static_cast<char>(byte));
  }
}

}  // namespace tapestry
