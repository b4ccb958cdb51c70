// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What a user probably meant who mistyped a name, or knows it from another program.
namespace tapestry {

/// The number of insertions, deletions, replacements and swaps of adjacent characters that turn `a`
/// into `b`, where no substring is edited twice (optimal string alignment distance). Letter case is
/// ignored and `-` equals `_`, since users often confuse them.
///
/// Takes O(|a| |b|) time.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that a user who typed `word` probably meant: the first candidate with the smallest
/// edit distance, if that is at most max(1, a third of the word). nullopt for words longer than 64
/// bytes.
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);

/// The names of a key in PyTorch, Hugging Face Transformers, fairseq, JoeyNMT, nanoGPT and papers.
struct Synonyms {
  std::string_view path;  ///< `optimizer.epsilon`
  std::vector<std::string_view> names;
};

/// The synonyms of all keys. If a name fits several keys, the first is the most likely.
const std::vector<Synonyms>& all_synonyms();

/// The keys, by path, that a user who wrote `name` as the name of a key probably meant, the most
/// likely first: the keys of this name in all sections; otherwise the keys that other
/// programs and papers call so, such as schedule.learning_rate for "lr". Empty for an unknown name.
/// Letter case is ignored and `-` equals `_`. For hints; a config is never read by these names.
std::vector<std::string> keys_meant_by(std::string_view name);

}  // namespace tapestry
