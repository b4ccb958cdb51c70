// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/csv_table.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "data/io/error.h"
#include "data/io/number.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"

namespace tapestry {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white_space = " \t";
  const std::size_t begin = text.find_first_not_of(white_space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(white_space) + 1 - begin);
}

/// Position of the comma after the first field of `text`; npos if it is the only field.
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

std::optional<double> finite_number(std::string_view field) {
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  const auto value = parse_number<double>(field);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// Appends the values of a line; `place` is its file and number.
void append_line(CsvTable& table, const std::string& line, const std::string& place) {
  const auto fields = split_csv_line(line);
  if (!fields) reject_data(place, "a quote that is not closed, expected numbers", "close it");
  if (table.rows == 0) table.columns = fields->size();
  if (fields->size() != table.columns) {
    reject_data(place,
                fmt::format("{} field{}, expected {} as in the previous lines", fields->size(),
                            fields->size() == 1 ? "" : "s", table.columns),
                "correct the line; fields are separated by commas");
  }
  for (std::size_t i = 0; i < fields->size(); ++i) {
    const std::string& field = (*fields)[i];
    const auto value = finite_number(field);
    if (!value) {
      reject_data(place,
                  fmt::format("\"{}\"{} in field {}, expected a finite number", excerpt(field),
                              name_odd_character(field), i + 1),
                  table.rows == 0
                      ? "if this line has column names, use read_csv(path, {.header = true})"
                      : "correct the field");
    }
    table.values.push_back(*value);
  }
  ++table.rows;
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

CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  const TextFile file = read_text_file(
      path, {.expected = "numbers separated by commas", .hint = "name the file with the numbers"});
  CsvTable table;
  for (std::size_t i = options.header ? 1 : 0; i < file.lines.size(); ++i) {
    if (trimmed(file.lines[i]).empty()) continue;
    append_line(table, file.lines[i], fmt::format("{}:{}", path.string(), i + 1));
  }
  if (table.rows == 0) {
    reject_data(path.string(), "no numbers, expected numbers separated by commas",
                "name the file with the numbers");
  }
  return table;
}

}  // namespace tapestry
