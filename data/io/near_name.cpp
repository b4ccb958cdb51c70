// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/near_name.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

namespace tapestry {
namespace {

constexpr std::size_t max_word_length = 64;
constexpr std::size_t max_names = 10'000;  ///< maximum number of names compared in a folder

char folded_character(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '-' ? '_' : c;
}

/// Whether names with these extensions may be mistaken for each other.
bool are_similar(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto is_yaml = [](const auto& extension) {
    return extension == ".yaml" || extension == ".yml";
  };
  return a == b || (is_yaml(a) && is_yaml(b));
}

}  // namespace

std::string folded(std::string_view word) {
  std::string result(word);
  std::ranges::transform(result, result.begin(), folded_character);
  return result;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::string x = folded(a), y = folded(b);
  // Rows i - 2, i - 1 and i of the table of distances between prefixes of x and prefixes of y.
  std::vector<std::size_t> before(y.size() + 1), previous(y.size() + 1), current(y.size() + 1);
  for (std::size_t j = 0; j <= y.size(); ++j) current[j] = j;

  for (std::size_t i = 1; i <= x.size(); ++i) {
    std::swap(before, previous);
    std::swap(previous, current);
    current[0] = i;
    for (std::size_t j = 1; j <= y.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (x[i - 1] == y[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1];
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
  }
  return current.back();
}

std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates) {
  if (word.size() > max_word_length) return std::nullopt;
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::optional<std::string> result;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best) continue;
    best = distance;
    result = candidate;
  }
  return result;
}

std::optional<std::string> closest_path(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  const fs::path given = path.has_filename() ? path : path.parent_path();  // "runs/a/"
  const fs::path folder = given.parent_path();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end && names.size() < max_names; entry.increment(error)) {
    const fs::path name = entry->path().filename();
    if (are_similar(name.extension(), given.extension())) names.push_back(name.string());
  }
  std::ranges::sort(names);  // the order of the folder is arbitrary
  const auto meant = closest(given.filename().string(), names);
  return meant ? std::optional((folder / *meant).string()) : std::nullopt;
}

}  // namespace tapestry
