// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/domain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>
#include <type_traits>

#include "data/io/near_name.h"
#include "data/io/utf8.h"
#include "train/config/numbers.h"

namespace tapestry {
namespace {

// ---- Numbers, which numbers.cpp parses.

std::string to_text(std::uint64_t value) { return fmt::format("{}", value); }
/// The shortest text that parses to the same number.
std::string to_text(double value) { return fmt::format("{}", value); }

// ---- Words.

std::string expected(const Flag&) { return "true or false"; }

Parsed parse(const Flag& set, std::string_view text) {
  if (text == "true") return FieldValue(true);
  if (text == "false") return FieldValue(false);
  static const std::vector<std::string> yes{"yes", "on", "1", "y", "true"};
  static const std::vector<std::string> no{"no", "off", "0", "n", "false"};
  const auto means = [&](const std::string& word) { return edit_distance(text, word) == 0; };
  std::string hint;
  if (std::ranges::any_of(yes, means)) hint = "write `true`";
  if (std::ranges::any_of(no, means)) hint = "write `false`";
  return not_in(expected(set), text, hint);
}

std::string to_text(bool value) { return value ? "true" : "false"; }

std::string expected(const OneOf& set) { return list_in_words(set.names); }

Parsed parse(const OneOf& set, std::string_view text) {
  if (std::ranges::find(set.names, text) != set.names.end()) return FieldValue(std::string(text));
  const std::optional<std::string> meant = closest(text, set.names);
  return not_in(expected(set), text, meant ? fmt::format("did you mean `{}`?", *meant) : "");
}

// ---- Texts and paths.

std::string expected(const Text&) { return "a text"; }
std::string expected(const FilePath&) { return "a path"; }
std::string expected(const FolderPath&) { return "a path"; }

Parsed parse(const Text&, std::string_view text) { return FieldValue(std::string(text)); }

Parsed parse(const FilePath&, std::string_view text) {
  if (auto error = find_shell_path(text)) return *std::move(error);
  return FieldValue(std::string(text));
}

Parsed parse(const FolderPath&, std::string_view text) { return parse(FilePath(), text); }

/// Puts the text in double quotes and escapes `"` and `\`.
std::string to_text(const std::string& value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return fmt::format("\"{}\"", escaped);
}

std::string expected(const RunPath&) { return "a path"; }

Diagnostic not_a_path(const std::string& expected, std::string_view text, std::string hint) {
  return {.message = fmt::format("expected {}, found {}", expected, excerpt(text)),
          .hint = std::move(hint)};
}

bool has_control_character(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); i += character_at(text, i).bytes.size()) {
    if (is_control(character_at(text, i).code_point)) return true;
  }
  return false;
}

/// The error for a path that is too long, or contains a name that is too long, for a file system;
/// nullopt if the path is valid.
std::optional<Diagnostic> find_excess_length(std::string_view text) {
  constexpr std::size_t max_path_bytes = 4000;  // PATH_MAX minus space for the file names of a run
  constexpr std::size_t max_name_bytes = 255;   // NAME_MAX
  std::size_t name_bytes = 0;
  for (const auto& name : std::filesystem::path(text)) {
    name_bytes = std::max(name_bytes, name.native().size());
  }
  if (name_bytes <= max_name_bytes && text.size() <= max_path_bytes) return std::nullopt;
  return Diagnostic{
      .message = fmt::format("expected a path of at most {} bytes with names of at most {}, "
                             "found {} bytes with a name of {}",
                             max_path_bytes, max_name_bytes, text.size(), name_bytes),
      .hint = "choose a shorter name"};
}

Parsed parse(const RunPath&, std::string_view text) {
  if (auto error = find_shell_path(text)) return *std::move(error);
  if (find_invalid_utf8(text)) {
    return not_a_path("a path in UTF-8", text, "choose a name in UTF-8");
  }
  if (has_control_character(text)) {
    return not_a_path("a path without control characters", text,
                      "choose a name without line feeds, tabs and escape sequences");
  }
  if (auto too_long = find_excess_length(text)) return *std::move(too_long);
  return FieldValue(std::string(text));
}

// ---- Lists.

std::string_view without_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

/// Removes the text up to the first comma, and the comma, from `rest`. Returns the removed text
/// without the comma and surrounding spaces.
std::string_view take_to_comma(std::string_view& rest) {
  const std::size_t comma = std::min(rest.find(','), rest.size());
  const std::string_view text = without_spaces(rest.substr(0, comma));
  rest.remove_prefix(std::min(comma + 1, rest.size()));
  return text;
}

/// Removes the double-quoted text at the start of `rest`, and returns it without quotes and
/// escapes; nullopt if a quote is not closed.
std::optional<std::string> take_quoted(std::string_view& rest) {
  std::string text;
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest.remove_prefix(i + 1);
      return text;
    }
    if (rest[i] == '\\' && i + 1 < rest.size()) ++i;
    text += rest[i];
  }
  return std::nullopt;
}

/// Removes the first item of a list and the comma after it from `rest`. Returns the item without
/// its double quotes; nullopt if a quote is not closed or is followed by anything other than a
/// comma.
std::optional<std::string> take_item(std::string_view& rest) {
  const std::size_t first = rest.find_first_not_of(" \t");
  if (first == rest.npos || rest[first] != '"') return std::string(take_to_comma(rest));
  rest.remove_prefix(first);
  std::optional<std::string> item = take_quoted(rest);
  return item && take_to_comma(rest).empty() ? item : std::nullopt;
}

/// The items of a list in brackets. A text without brackets is a list of one item; an empty text is
/// an empty list. nullopt for an invalid list.
std::optional<std::vector<std::string>> parse_items(std::string_view text) {
  if (text.empty()) return std::vector<std::string>();
  if (!text.starts_with('[') || !text.ends_with(']')) return std::vector{std::string(text)};
  std::vector<std::string> items;
  std::string_view rest = without_spaces(text.substr(1, text.size() - 2));
  const bool open_end = rest.ends_with(',');
  while (!rest.empty()) {
    auto item = take_item(rest);
    if (!item || item->empty()) return std::nullopt;
    items.push_back(*std::move(item));
  }
  if (open_end) return std::nullopt;
  return items;
}

std::string expected(const FilePaths&) { return "a path or a list of paths"; }

Parsed parse(const FilePaths& set, std::string_view text) {
  auto names = parse_items(text);
  if (!names) return not_in(expected(set), text, "for example, write [a.txt, b.txt]");
  for (const std::string& name : *names) {
    if (auto error = find_shell_path(name)) return *std::move(error);
  }
  return FieldValue(FileList(*std::move(names)));
}

std::string to_text(const FileList& value) {
  const std::vector<std::string>& names = value.names();
  if (names.empty()) return to_text(std::string());
  // Quotes a name in brackets, which would otherwise be read as a list.
  const bool is_list = names.size() > 1 || names.front().starts_with('[');
  return is_list ? print_list(names) : to_text(names.front());
}

std::string expected(const WholeNumbers& set) {
  return fmt::format("a list such as [1, 3], where each item is {}", expected(set.number));
}

Parsed parse(const WholeNumbers& set, std::string_view text) {
  const auto items = parse_items(text);
  if (!items) return not_in(expected(set), text, "for example, write [1, 3]");
  std::vector<std::size_t> values;
  for (const std::string& item : *items) {
    const Parsed value = parse(set.number, item);
    if (const auto* bad = std::get_if<Diagnostic>(&value)) {
      return not_in(expected(set), text, bad->hint);
    }
    values.push_back(std::get<std::uint64_t>(std::get<FieldValue>(value)));
  }
  return FieldValue(std::move(values));
}

std::string to_text(const std::vector<std::size_t>& value) {
  return fmt::format("[{}]", fmt::join(value, ", "));
}

// Members of Domain hide the functions expected() and parse().

template <class Set>
std::string describe(const Set& set) {
  return expected(set);
}

template <class Set>
Parsed parse_in(const Set& set, std::string_view text) {
  return parse(set, text);
}

template <class Value>
void visit_paths(Value& value, const auto& f) {
  if (auto* path = std::get_if<std::string>(&value); path != nullptr && !path->empty()) f(*path);
  if (auto* files = std::get_if<FileList>(&value)) {
    for (auto& path : files->names()) f(path);
  }
}

}  // namespace

std::string Domain::expected() const {
  return std::visit([](const auto& set) { return describe(set); }, set_);
}

Parsed Domain::parse(std::string_view text) const {
  const auto parse_in_set = [&](std::string_view each) {
    return std::visit([&](const auto& set) { return parse_in(set, each); }, set_);
  };
  Parsed parsed = parse_in_set(text);
  auto* const error = std::get_if<Diagnostic>(&parsed);
  const std::string odd = error == nullptr ? "" : name_odd_character(text);
  if (odd.empty()) return parsed;
  error->message += odd;
  const std::string plain(without_spaces(with_plain_characters(text)));
  const Parsed meant = parse_in_set(plain);
  const auto* other = std::get_if<Diagnostic>(&meant);
  error->hint = other == nullptr ? fmt::format("write `{}`", plain) : other->hint;
  return parsed;
}

std::string Domain::print(const FieldValue& value) const {
  if (is<OneOf>()) return std::get<std::string>(value);
  return std::visit(
      [&]<class T>(const T& each) {
        if constexpr (std::is_same_v<T, std::optional<double>>) {
          return each ? to_text(*each) : std::string(std::get<NumberOrWord>(set_).word);
        } else {
          return to_text(each);
        }
      },
      value);
}

std::vector<std::string> Domain::words() const {
  if (is<Flag>()) return {"true", "false"};
  if (const auto* set = std::get_if<OneOf>(&set_)) return set->names;
  if (const auto* set = std::get_if<NumberOrWord>(&set_)) return {std::string(set->word)};
  return {};
}

std::optional<Diagnostic> find_shell_path(std::string_view text) {
  static const std::regex path(path_pattern);
  if (std::regex_search(text.begin(), text.end(), path, std::regex_constants::match_continuous)) {
    return std::nullopt;
  }
  const bool home = text.starts_with('~');
  const std::string_view name = text.substr(0, text.find('/'));
  return Diagnostic{
      .message = fmt::format("expected a path, found {}, whose {} only a shell expands",
                             excerpt(text), home ? "~" : excerpt(name)),
      .hint = home ? "write the whole path of the home directory; on a command line, $HOME/... "
                     "instead of ~/..."
                   : "write the whole path, or pass the key on the command line, where the shell "
                     "expands it"};
}

std::string print_list(const std::vector<std::string>& items) {
  std::vector<std::string> printed;
  for (const std::string& item : items) printed.push_back(to_text(item));
  return fmt::format("[{}]", fmt::join(printed, ", "));
}

std::string list_in_words(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool last = i + 1 == words.size();
    text += i == 0 ? "" : last ? " or " : ", ";
    text += words[i];
  }
  return text;
}

void for_each_path(FieldValue& value, const std::function<void(std::string&)>& f) {
  visit_paths(value, f);
}

void for_each_path(const FieldValue& value, const std::function<void(const std::string&)>& f) {
  visit_paths(value, f);
}

}  // namespace tapestry
