// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <system_error>
#include <variant>

#include "data/io/near_name.h"
#include "data/io/number.h"
#include "train/config/error.h"

namespace tapestry {
namespace {

/// Whether commas divide the text into groups of three digits, as in 12,000 but not in 0,001.
bool has_thousands(std::string_view text) {
  const std::size_t first = text.find(',');
  if (first == text.npos || first == 0 || first > 3 || text[0] == '0') return false;
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

/// Removes the suffix k, K or M of a number such as 5k or 2M, and returns its factor; 1 without a
/// suffix.
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

/// Whether a number has a leading zero, for example 010 or 00.5. YAML 1.1 and 1.2 read such numbers
/// differently.
bool has_leading_zero(std::string_view text) {
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

/// A hint with the number that a user probably means when writing 0,1, 1_000.5, +0.1 or 010.
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

/// Whether the text begins with a number whose absolute value is too large or too small for a
/// double.
bool is_out_of_range(std::string_view text) {
  double ignored = 0.0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), ignored);
  return error == std::errc::result_out_of_range;
}

// ---- Times.

struct TimeUnit {
  char letter;
  std::int64_t seconds;
  std::array<std::string_view, 5> words;  ///< words that people write instead of the letter
};
constexpr std::array<TimeUnit, 4> time_units{{{'d', 86400, {"d", "day", "days"}},
                                              {'h', 3600, {"h", "hr", "hrs", "hour", "hours"}},
                                              {'m', 60, {"m", "min", "mins", "minute", "minutes"}},
                                              {'s', 1, {"s", "sec", "secs", "second", "seconds"}}}};
constexpr std::int64_t max_duration = 10'000 * time_units[0].seconds;

/// Removes a number and its unit letter from the front of `text` and returns the time in seconds.
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

}  // namespace

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
  std::string hint = bad->hint;
  if (text.find('%') != text.npos) hint = "write a percentage above 0% and up to 100%, such as 5%";
  const double share = parse_number<double>(text).value_or(0.0);
  if (share > 0.0 && share < 1.0) hint = fmt::format("write `{:.6g}%`", 100.0 * share);
  return not_in(expected(set), text, std::move(hint));
}

std::string expected(const RealNumber& set) {
  const auto [low, high, has_low, has_high] = set;
  if (std::isinf(low) && std::isinf(high)) return "a number";
  if (std::isinf(low)) return fmt::format("a number {} {}", has_high ? "<=" : "<", high);
  if (std::isinf(high)) return fmt::format("a number {} {}", has_low ? ">=" : ">", low);
  return fmt::format("a number in {}{}, {}{}", has_low ? '[' : '(', low, high,
                     has_high ? ']' : ')');
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

std::string expected(const Duration&) { return "a time such as 3h50m, 90s or 1d12h"; }

/// The time in seconds of a text such as 3h50m; nullopt for other texts.
std::optional<std::int64_t> parse_time(std::string_view text) {
  std::span<const TimeUnit> units = time_units;
  std::int64_t sum = 0;
  do {
    const auto part = take_time(text, units);
    if (!part) return std::nullopt;
    sum += *part;
  } while (!text.empty());
  return sum;
}

/// A hint with the time that a user probably means when writing 3600, 2hours or 3H 50 min.
std::string hint_for_time(std::string_view text) {
  if (all_digits(text)) return fmt::format("write `{}s` for seconds", text);
  std::string plain;
  for (std::size_t i = 0; i < text.size();) {
    if (is_digit(text[i]) || text[i] == ' ') {
      plain += text[i] == ' ' ? "" : std::string(1, text[i]);
      ++i;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of("0123456789 ", i), text.size());
    const std::string word = folded(text.substr(i, end - i));
    const auto unit = std::ranges::find_if(time_units, [&](const TimeUnit& each) {
      return std::ranges::find(each.words, word) != each.words.end();
    });
    if (unit == time_units.end()) return "";
    plain += unit->letter;
    i = end;
  }
  return parse_time(plain) ? fmt::format("write `{}`", plain) : "";
}

Parsed parse(const Duration& set, std::string_view text) {
  const std::optional<std::int64_t> seconds = parse_time(text);
  if (!seconds) return not_in(expected(set), text, hint_for_time(text));
  if (*seconds > max_duration) return not_in(expected(set), text, "write 10000d or less");
  return FieldValue(std::chrono::seconds(*seconds));
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

std::optional<double> parse_percentage(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  const Parsed parsed = parse(RealNumber{.high = 100.0, .has_low = false}, text);
  const auto* percent = std::get_if<FieldValue>(&parsed);
  return percent != nullptr ? std::optional(std::get<double>(*percent)) : std::nullopt;
}

}  // namespace tapestry
