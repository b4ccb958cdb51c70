#include "train/cli/roff.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tapestry::roff {
namespace {

constexpr std::size_t line_width = 79;  // bytes of a line of a filled paragraph, by custom

/// The bytes of the UTF-8 character that begins with `lead`.
std::size_t character_size(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

std::uint32_t code_point(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character.front());
  std::uint32_t code = lead & (0xFFu >> (character.size() + 1));
  for (const char next : character.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(next) & 0x3Fu);
  }
  return code;
}

std::string escaped_character(std::string_view character) {
  if (character.size() > 1) return fmt::format("\\[u{:04X}]", code_point(character));
  switch (character.front()) {
    case '\\':
      return "\\e";
    case '-':
      return "\\-";
    case '\'':
      return "\\(aq";
    case '"':
      return "\\(dq";
    case '`':
      return "\\(ga";
    case '^':
      return "\\(ha";
    case '~':
      return "\\(ti";
    default:
      return std::string(character);
  }
}

/// A line must not begin with a control character.
std::string_view line_start(std::string_view line) { return line.starts_with('.') ? "\\&" : ""; }

std::string escape(std::string_view text, bool has_code) {
  std::string result;
  bool bold = false;
  while (!text.empty()) {
    const std::string_view character =
        text.substr(0, character_size(static_cast<unsigned char>(text.front())));
    const bool quote = has_code && character == "`" && (bold || text.find('`', 1) != text.npos);
    if (quote) bold = !bold;
    result += quote ? (bold ? "\\fB" : "\\fR") : escaped_character(character);
    text.remove_prefix(character.size());
  }
  return result;
}

}  // namespace

std::string escaped(std::string_view text) { return escape(text, true); }
std::string literal(std::string_view text) { return escape(text, false); }

Page::Page(std::string_view name, int section, std::string_view date, std::string_view source,
           std::string_view manual) {
  std::string title;
  for (const char letter : name) {
    title += letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  }
  text_ = fmt::format(".TH {} {} {} \"{}\" \"{}\"\n", literal(title), section, date,
                      literal(source), literal(manual));
}

/// Adds text that has been escaped, in lines of at most line_width bytes where it has spaces.
void Page::fill(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(" \n");
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (word.empty()) continue;
    if (!line.empty() && line.size() + 1 + word.size() > line_width) {
      text_ += line + "\n";
      line.clear();
    }
    if (line.empty()) {
      line += line_start(word);
    } else {
      line += ' ';
    }
    line += word;
  }
  if (!line.empty()) text_ += line + "\n";
}

/// Adds a macro between two texts.
void Page::separate(std::string_view macro) {
  if (!at_heading_) text_ += fmt::format("{}\n", macro);
  at_heading_ = false;
}

void Page::section(std::string_view title) {
  text_ += fmt::format(".SH {}\n", literal(title));
  at_heading_ = true;
}

void Page::subsection(std::string_view title) {
  text_ += fmt::format(".SS {}\n", literal(title));
  at_heading_ = true;
}

void Page::paragraph(std::string_view text) {
  separate(".PP");
  fill(escaped(text));
}

void Page::line(std::string_view text) {
  separate(".br");
  fill(escaped(text));
}

void Page::item(std::string_view tag, std::string_view text) {
  at_heading_ = false;
  text_ += fmt::format(".TP\n\\fB{}\\fR\n", literal(tag));
  fill(escaped(text));
}

void Page::more(std::string_view text) {
  text_ += ".IP\n";
  fill(escaped(text));
}

void Page::lines(std::string_view text) {
  separate(".PP");
  text_ += ".nf\n";
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text_ += fmt::format("{}{}\n", line_start(line), literal(line));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  text_ += ".fi\n";
}

}  // namespace tapestry::roff
