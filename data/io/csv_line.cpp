#include "data/io/csv_line.h"

namespace tapestry {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white_space = " \t";
  const std::size_t begin = text.find_first_not_of(white_space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(white_space) + 1 - begin);
}

/// Position of the comma behind the field at the front of `text`; npos if it is the last.
std::size_t end_of_field(std::string_view text) {
  if (!trimmed(text).starts_with('"')) return text.find(',');
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == ',' && !quoted) return i;
  }
  return std::string_view::npos;
}

/// The content of a field in quotes, with "" as one quote; nullopt if a quote is not closed.
std::optional<std::string> unquoted(std::string_view field) {
  std::string text;
  bool quoted = false;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const bool doubled = quoted && field.substr(i, 2) == "\"\"";
    if (doubled) ++i;
    if (field[i] == '"' && !doubled) {
      quoted = !quoted;
    } else {
      text += field[i];
    }
  }
  return quoted ? std::nullopt : std::optional(text);
}

}  // namespace

std::optional<std::vector<std::string>> split_csv_line(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    const std::size_t comma = end_of_field(line);
    const std::string_view field = trimmed(line.substr(0, comma));
    if (field.starts_with('"')) {
      auto text = unquoted(field);
      if (!text) return std::nullopt;
      fields.push_back(*std::move(text));
    } else {
      fields.emplace_back(field);
    }
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace tapestry
