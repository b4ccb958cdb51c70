// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/domain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <type_traits>

#include "data/io/near_name.h"
#include "data/io/number.h"
#include "data/io/utf8.h"
#include "train/config/text.h"

namespace tapestry {
namespace {

Diagnostic not_in(const std::string& expected, std::string_view text, std::string hint = {}) {
  return {.message = fmt::format("expected {}, found {}", expected, quoted(text)),
          .hint = std::move(hint)};
}

// ---- Numbers.

/// Whether commas divide the text into groups of three digits, as in 12,000.
bool has_thousands(std::string_view text) {
  const std::size_t first = text.find(',');
  if (first == text.npos || first == 0 || first > 3) return false;
  for (std::size_t i = first; i < text.size(); ++i) {
    if (((i - first) % 4 == 0) != (text[i] == ',')) return false;
  }
  return (text.size() - first) % 4 == 0;
}

std::string without_separators(std::string_view text) {
  std::string result(text);
  std::erase(result, '_');
  if (has_thousands(text)) std::erase(result, ',');
  return result;
}

/// Removes a suffix k, K or M, such as in 5k and 2M, and returns its factor; 1 without a suffix.
double take_factor(std::string& text) {
  const char last = text.empty() ? '\0' : text.back();
  const double factor = last == 'k' || last == 'K' ? 1e3 : last == 'M' ? 1e6 : 1.0;
  if (factor != 1.0) text.pop_back();
  return factor;
}

/// The whole number that a user probably means when writing 010, 0x10, 1e3, 1_000, 1,000, 5k, 64.0
/// or +5.
std::optional<std::uint64_t> guess_whole_number(std::string_view text) {
  constexpr double exact_below = 9007199254740992.0;  // 2^53
  std::string plain = without_separators(text);
  if (plain.starts_with('+')) plain.erase(0, 1);
  if (plain.starts_with("0x")) {
    const auto hexadecimal = parse_number<std::uint64_t>(std::string_view(plain).substr(2), 16);
    if (hexadecimal) return hexadecimal;
  }
  const double factor = take_factor(plain);
  const double value = factor * parse_number<double>(plain).value_or(NAN);
  const bool whole = value >= 0 && value < exact_below && std::floor(value) == value;
  return whole ? std::optional(static_cast<std::uint64_t>(value)) : std::nullopt;
}

std::string hint_for_whole_number(std::string_view text) {
  const std::optional<std::uint64_t> guess = guess_whole_number(text);
  return guess ? fmt::format("write `{}`, in decimal digits", *guess) : "";
}

/// Whether a number has a leading zero, such as 010 and 00.5. YAML 1.1 and 1.2 read such numbers
/// differently.
bool has_leading_zero(std::string_view text) {
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

/// A hint with the number that a user probably means when writing 0,1 or 1_000.5 or +0.1 or 010.
std::string hint_for_real_number(std::string_view text) {
  std::string plain = without_separators(text);
  std::replace(plain.begin(), plain.end(), ',', '.');
  if (plain.starts_with('+')) plain.erase(0, 1);
  while (has_leading_zero(plain)) plain.erase(0, 1);
  const auto guess = parse_number<double>(plain);
  const bool usable = guess && std::isfinite(*guess);
  return usable && plain != text ? fmt::format("write `{}`", *guess) : "";
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

std::string expected(const WholeNumber& set) {
  if (set.high == std::numeric_limits<std::uint64_t>::max()) {
    return fmt::format("a whole number >= {}", set.low);
  }
  return fmt::format("a whole number from {} to {}", set.low, set.high);
}

Parsed parse(const WholeNumber& set, std::string_view text) {
  const bool leading_zero = text.size() > 1 && text[0] == '0';
  if (!all_digits(text) || leading_zero) {
    return not_in(expected(set), text, hint_for_whole_number(text));
  }
  const auto number = parse_number<std::uint64_t>(text);
  const bool fits = number && *number >= set.low && *number <= set.high;
  if (!fits) return not_in(expected(set), text);
  return FieldValue(*number);
}

std::string expected(const StepCount& set) {
  return expected(set.number) + " or a percentage of `train.steps`";
}

Parsed parse(const StepCount& set, std::string_view text) {
  const Parsed number = parse(set.number, text);
  const auto* bad = std::get_if<Diagnostic>(&number);
  if (bad == nullptr) return number;
  const bool looks_like_percentage = text.find('%') != text.npos;
  return not_in(
      expected(set), text,
      looks_like_percentage ? "write a percentage above 0% and up to 100%, such as 5%" : bad->hint);
}

std::string expected(const RealNumber& set) {
  const auto [low, high, has_low, has_high] = set;
  if (std::isinf(low) && std::isinf(high)) return "a number";
  if (std::isinf(low)) return fmt::format("a number {} {}", has_high ? "<=" : "<", high);
  if (std::isinf(high)) return fmt::format("a number {} {}", has_low ? ">=" : ">", low);
  return fmt::format("a number in {}{}, {}{}", has_low ? '[' : '(', low, high,
                     has_high ? ']' : ')');
}

/// Whether the text begins with a number whose absolute value is too large or too small for a
/// double.
bool is_out_of_range(std::string_view text) {
  double ignored = 0.0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), ignored);
  return error == std::errc::result_out_of_range;
}

Parsed parse(const RealNumber& set, std::string_view text) {
  if (is_out_of_range(text)) {
    return not_in(expected(set), text, "write a number that a double can hold");
  }
  const bool clear = !has_leading_zero(text.starts_with('-') ? text.substr(1) : text);
  const auto number = parse_number<double>(text);
  if (!number || !std::isfinite(*number) || !clear) {
    return not_in(expected(set), text, hint_for_real_number(text));
  }
  const bool above = set.has_low ? *number >= set.low : *number > set.low;
  const bool below = set.has_high ? *number <= set.high : *number < set.high;
  if (!above || !below) return not_in(expected(set), text);
  return FieldValue(*number);
}

std::string expected(const NumberOrWord& set) {
  return fmt::format("{} or `{}`", expected(set.number), set.word);
}

Parsed parse(const NumberOrWord& set, std::string_view text) {
  if (text == set.word) return FieldValue(std::optional<double>());
  const Parsed number = parse(set.number, text);
  const auto* bad = std::get_if<Diagnostic>(&number);
  if (bad == nullptr) {
    return FieldValue(std::optional(std::get<double>(std::get<FieldValue>(number))));
  }
  const bool meant_word = closest(text, std::array{std::string(set.word)}).has_value();
  return not_in(expected(set), text,
                meant_word ? fmt::format("did you mean `{}`?", set.word) : bad->hint);
}

std::string to_text(std::uint64_t value) { return fmt::format("{}", value); }
/// The shortest text that parses to the same number.
std::string to_text(double value) { return fmt::format("{}", value); }

// ---- Times.

struct TimeUnit {
  char letter;
  std::int64_t seconds;
};
constexpr std::array<TimeUnit, 4> time_units{{{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
constexpr std::int64_t max_duration = 10'000 * time_units[0].seconds;

/// Removes a number and its unit letter from the front of `text` and returns their time in seconds.
/// Removes the unit and all larger units from `units`, so that each unit occurs at most once, in
/// descending order.
std::optional<std::int64_t> take_time(std::string_view& text, std::span<const TimeUnit>& units) {
  const auto digits =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  const auto number = parse_number<std::int64_t>(text.substr(0, digits));
  if (!number || digits == text.size()) return std::nullopt;
  const auto unit = std::ranges::find(units, text[digits], &TimeUnit::letter);
  if (unit == units.end() || *number > max_duration / unit->seconds) return std::nullopt;
  text.remove_prefix(digits + 1);
  units = units.subspan(static_cast<std::size_t>(unit - units.begin()) + 1);
  return *number * unit->seconds;
}

std::string expected(const Duration&) { return "a time such as 3h50m, 90s or 1d12h"; }

Parsed parse(const Duration& set, std::string_view text) {
  const std::string hint = all_digits(text) ? fmt::format("write `{}s` for seconds", text) : "";
  std::string_view rest = text;
  std::span<const TimeUnit> units = time_units;
  std::int64_t sum = 0;
  do {
    const auto part = take_time(rest, units);
    if (!part) return not_in(expected(set), text, hint);
    sum += *part;
  } while (!rest.empty());
  if (sum > max_duration) return not_in(expected(set), text, "write 10000d or less");
  return FieldValue(std::chrono::seconds(sum));
}

std::string to_text(std::chrono::seconds value) {
  std::int64_t rest = value.count();
  if (rest == 0) return "0s";
  std::string text;
  for (const TimeUnit& unit : time_units) {
    if (rest >= unit.seconds) text += fmt::format("{}{}", rest / unit.seconds, unit.letter);
    rest %= unit.seconds;
  }
  return text;
}

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

/// The reason why a path or one of its names is too long for a file system; nullopt if the path is
/// valid.
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
  return fmt::format("a list such as [1, 3], each of them {}", expected(set.number));
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

template <class Value>
void visit_paths(Value& value, const auto& f) {
  if (auto* path = std::get_if<std::string>(&value); path != nullptr && !path->empty()) f(*path);
  if (auto* files = std::get_if<FileList>(&value)) {
    for (auto& path : files->names()) f(path);
  }
}

}  // namespace

std::string Domain::expected() const {
  return std::visit([](const auto& set) { return tapestry::expected(set); }, set_);
}

Parsed Domain::parse(std::string_view text) const {
  const auto parse_in_set = [&](std::string_view each) {
    return std::visit([&](const auto& set) { return tapestry::parse(set, each); }, set_);
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
  const bool home = text.starts_with('~');
  const bool variable =
      text.size() > 1 && text[0] == '$' &&
      (text[1] == '{' || text[1] == '_' || std::isalpha(static_cast<unsigned char>(text[1])) != 0);
  if (!home && !variable) return std::nullopt;
  const std::string_view name = text.substr(0, text.find('/'));
  return Diagnostic{
      .message = fmt::format("expected a path, found {}, whose {} only a shell expands",
                             excerpt(text), home ? "~" : excerpt(name)),
      .hint = home ? "write the whole path of the home directory; on a command line, $HOME/... "
                     "instead of ~/..."
                   : "write the whole path, or pass the key on the command line, where the shell "
                     "expands it"};
}

std::optional<double> parse_percentage(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  const Parsed parsed = parse(RealNumber{.high = 100.0, .has_low = false}, text);
  const auto* percent = std::get_if<FieldValue>(&parsed);
  return percent != nullptr ? std::optional(std::get<double>(*percent)) : std::nullopt;
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
