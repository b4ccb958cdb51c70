// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

/// Formats 12345 as "12,345".
std::string format_count(std::uint64_t number);

/// Formats a number in at most 8 characters: with `decimals` decimals, such as "2.3219", or with
/// fewer digits if that would be too long, such as "12345.7" and "1.2e+133".
std::string format_value(double value, int decimals);

/// Formats a duration as "1:02:03" or "4:05". Rounds to whole seconds; negative values become 0.
std::string format_duration(double seconds);

/// Formats a duration as "45 seconds", "12 minutes", "30 hours" or "3 days".
std::string duration_in_words(double seconds);

/// Formats a size in bytes as "1.4 GB", "35 MB" or "0.3 MB".
std::string format_bytes(std::uint64_t bytes);

/// Pads the words of several lines so that words with the same index are aligned, such as tokens
/// and their labels.
std::vector<std::string> align_words(const std::vector<std::string>& lines);

/// Formats a fraction in (0, 1] as a percentage: "20.0 %", "under 0.1 %".
std::string format_share(double share);

/// Formats a time in seconds since 1970 as "2026-11-23T16:42:07Z", or as "unknown time" if the
/// calendar cannot represent it.
std::string format_time(std::time_t seconds);

/// A path for use in a printed shell command, quoted if necessary: `'my run'`. Paths with control
/// characters or invalid UTF-8 use the $'a\nb' syntax of bash and zsh. A relative path that looks
/// like an option or a config override gets the prefix "./".
std::string format_argument(std::string_view path);

}  // namespace tapestry
