// SPDX-License-Identifier: BSD-3-Clause
#include "train/base/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "data/io/utf8.h"

namespace tapestry {
namespace {

bool is_ascii_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Whether a shell reads the character literally without quotes. Bytes outside ASCII count as
/// literal.
bool is_plain(char c) {
  constexpr std::string_view marks = "_-./,:=@%+";
  return is_ascii_letter_or_digit(c) || marks.find(c) != marks.npos ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// Quotes the text as $'...'. Writes bytes that are not printable ASCII as octal escapes.
std::string ansi_c_quoted(std::string_view text) {
  std::string quoted = "$'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') {
      quoted += {'\\', c};
    } else if (c >= ' ' && c <= '~') {
      quoted += c;
    } else {
      quoted += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    }
  }
  return quoted + '\'';
}

std::string single_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + '\'';
}

}  // namespace

std::string format_value(double value, int decimals) {
  constexpr std::size_t max_length = 8;
  std::string text;
  for (int digits = decimals; digits >= 0; --digits) {
    text = fmt::format("{:.{}f}", value, digits);
    if (text.size() <= max_length) return text;
  }
  for (int digits = 2; digits >= 0 && text.size() > max_length; --digits) {
    text = fmt::format("{:.{}e}", value, digits);
  }
  return text;
}

std::vector<std::string> align_words(const std::vector<std::string>& lines) {
  std::vector<std::string> aligned(lines.size());
  std::vector<std::string_view> rest(lines.begin(), lines.end());
  while (std::ranges::any_of(rest, [](std::string_view line) { return !line.empty(); })) {
    std::vector<std::string_view> words;
    std::vector<std::size_t> widths;
    for (std::string_view& line : rest) {
      const std::string_view word = words.emplace_back(line.substr(0, line.find(' ')));
      widths.push_back(static_cast<std::size_t>(std::ranges::count_if(
          word, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; })));
      line.remove_prefix(std::min(word.size() + 1, line.size()));
    }
    const std::size_t column = std::ranges::max(widths) + 1;
    for (std::size_t i = 0; i < words.size(); ++i) {
      aligned[i] += words[i];
      if (!rest[i].empty()) aligned[i].append(column - widths[i], ' ');
    }
  }
  return aligned;
}

std::string format_time(std::time_t seconds) {
  std::tm utc{};
  if (::gmtime_r(&seconds, &utc) == nullptr) return "unknown time";
  std::array<char, 64> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text.data(), size};
}

std::string format_argument(std::string_view path) {
  std::string word(path);
  if (word.starts_with('-') || word.find('=') < word.find('/')) word.insert(0, "./");
  if (escaped(word) != word) return ansi_c_quoted(word);
  const bool plain = !word.empty() && std::ranges::all_of(word, is_plain);
  return plain ? word : single_quoted(word);
}

std::string format_count(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return digits;
}

std::string format_duration(double seconds) {
  const auto total = static_cast<std::uint64_t>(std::max(0.0, std::round(seconds)));
  const std::uint64_t hours = total / 3600;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string duration_in_words(double seconds) {
  constexpr double minute = 60.0, hour = 3600.0, day = 86400.0;
  if (seconds < 2 * minute) return fmt::format("{:.0f} seconds", seconds);
  if (seconds < 2 * hour) return fmt::format("{:.0f} minutes", seconds / minute);
  if (seconds < 2 * day) return fmt::format("{:.0f} hours", seconds / hour);
  return fmt::format("{:.0f} days", seconds / day);
}

std::string format_bytes(std::uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return fmt::format("{:.1f} GB", 1e-9 * number);
  return fmt::format("{:.{}f} MB", 1e-6 * number, bytes < 10'000'000 ? 1 : 0);
}

std::string format_share(double share) {
  return share < 0.001 ? "under 0.1 %" : fmt::format("{:.1f} %", 100 * share);
}

}  // namespace tapestry
