// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "data/io/utf8.h"
#include "train/config/text.h"

namespace tapestry {
namespace {

constexpr std::string_view excerpt_indent = "    ";
constexpr std::size_t max_excerpt_length = 90;

/// The part of the source line that is shown, and where to underline it.
struct Excerpt {
  std::string text;
  std::size_t caret;   ///< position of the caret in characters
  std::size_t length;  ///< number of underlined characters
};

Excerpt excerpt(const Place& place) {
  const std::string& line = place.source_line;
  const std::size_t caret = place.column - 1;
  std::size_t first = std::min(caret, std::min(line.find_first_not_of(" \t"), line.size()));
  if (caret - first > max_excerpt_length / 2) first = caret - max_excerpt_length / 2;
  const std::string_view shown = characters(line, first, max_excerpt_length);
  const std::size_t room =
      count_characters(shown) - std::min(count_characters(shown), caret - first);
  return {std::string(shown), caret - first, std::min(place.length, room)};
}

/// The white space before the caret. Keeps the tabs of the line above, so that the two lines stay
/// aligned.
std::string margin(const Excerpt& shown) {
  std::string result;
  for (std::size_t i = 0; i < shown.caret; ++i) {
    result += characters(shown.text, i, 1) == "\t" ? '\t' : ' ';
  }
  return result;
}

std::string underlined_source(const Place& place) {
  const Excerpt shown = excerpt(place);
  const std::size_t tildes = shown.length > 1 ? shown.length - 1 : 0;
  return fmt::format("\n{0}{1}\n{0}{2}^{3}", excerpt_indent, shown.text, margin(shown),
                     std::string(tildes, '~'));
}

std::string joined_text(const std::vector<Diagnostic>& errors) {
  std::vector<std::string> texts;
  for (const Diagnostic& error : errors) texts.push_back(to_string(error));
  return fmt::format("{}", fmt::join(texts, "\n"));
}

/// Sorts errors by line. Errors without a line, which concern the command line or a whole file,
/// come last.
std::vector<Diagnostic> in_order(std::vector<Diagnostic> errors) {
  std::stable_sort(errors.begin(), errors.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(a.place.line == 0, a.place.line) < std::pair(b.place.line == 0, b.place.line);
  });
  return errors;
}

}  // namespace

std::string to_string(const Diagnostic& error) {
  const Place& place = error.place;
  std::string text = escaped(place.file);
  if (place.line > 0) text += fmt::format(":{}:{}", place.line, place.column);
  text += ": " + error.message;
  if (place.line > 0) text += underlined_source(place);
  if (!error.hint.empty()) text += "\nhint: " + error.hint;
  return text;
}

Diagnostic not_in(const std::string& expected, std::string_view text, std::string hint) {
  return {.message = fmt::format("expected {}, found {}", expected, quoted(text)),
          .hint = std::move(hint)};
}

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : ErrorWith(joined_text(diagnostics)), diagnostics_(std::move(diagnostics)) {}

void Diagnostics::add(Place place, std::string message, std::string hint) {
  if (errors_.size() == max_size) {
    std::vector<Diagnostic> all = in_order(errors_);
    all.push_back({{.file = std::move(place.file)},
                   fmt::format("more than {} errors; the rest are not listed", max_size),
                   "check that this file is meant to be a config"});
    throw ConfigError(std::move(all));
  }
  errors_.push_back({std::move(place), std::move(message), std::move(hint)});
}

void Diagnostics::throw_if_any() const {
  if (!errors_.empty()) throw ConfigError(in_order(errors_));
}

void reject_option(std::string_view option, const std::string& message, const std::string& hint) {
  throw ConfigError({{.place = {.file = "command line: " + std::string(option)},
                      .message = message,
                      .hint = hint}});
}

}  // namespace tapestry
