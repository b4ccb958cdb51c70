// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Suggestions for mistyped names and for names of other programs.
namespace tapestry {

/// The minimum number of insertions, deletions, replacements and swaps of adjacent characters that
/// turn `a` into `b` without editing a substring twice (optimal string alignment distance). Ignores
/// letter case and treats `-` as `_`, since users often confuse them.
///
/// Takes O(|a| |b|) time.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The first candidate with the smallest edit distance to `word`, if the distance is at most
/// max(1, word.size() / 3); else nullopt. Also nullopt for words longer than 64 bytes.
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);

/// Names of a key in PyTorch, Hugging Face Transformers, fairseq, JoeyNMT, nanoGPT and papers.
struct Synonyms {
  std::string_view path;  ///< `optimizer.epsilon`
  std::vector<std::string_view> names;
};

/// The synonyms of all keys. If several keys have the same synonym, the most likely key comes
/// first.
const std::vector<Synonyms>& all_synonyms();

/// The paths of the keys that a user probably meant by `name`, most likely first: the keys with
/// this name in any section, or else the keys with this synonym, such as schedule.learning_rate for
/// "lr". Empty for an unknown name. Ignores letter case and treats `-` as `_`. Used only in hints:
/// configs do not accept synonyms.
std::vector<std::string> keys_meant_by(std::string_view name);

}  // namespace tapestry
