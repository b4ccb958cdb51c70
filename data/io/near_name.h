// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

/// Names that a user probably meant by a mistyped name.
namespace tapestry {

/// `word` in lower case with `-` as `_`: equal for words whose edit distance is 0.
std::string folded(std::string_view word);

/// The minimum number of insertions, deletions, replacements and swaps of adjacent characters that
/// turn `a` into `b` without editing a substring twice (optimal string alignment distance). Ignores
/// letter case and treats `-` as `_`, since users often confuse them.
///
/// Takes O(|a| |b|) time.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The first candidate with the smallest edit distance to `word`, if the distance is at most
/// max(1, word.size() / 3) and `word` has at most 64 bytes; otherwise nullopt.
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);

/// The path with its last name replaced by the closest name in the same folder with the same
/// extension, or with .yml instead of .yaml or vice versa; nullopt if no name is close or the
/// folder cannot be read.
std::optional<std::string> closest_path(const std::filesystem::path& path);

}  // namespace tapestry
