// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Finds config keys by their names in other programs.
namespace tapestry {

/// Names of a key in PyTorch, Hugging Face Transformers, fairseq, JoeyNMT, nanoGPT and papers.
struct Synonyms {
  std::string_view path;  ///< section and name, such as `optimizer.epsilon`
  std::vector<std::string_view> names;
};

/// The synonyms of all keys. If several keys have the same synonym, the most likely key comes
/// first.
const std::vector<Synonyms>& all_synonyms();

/// The paths of the keys with this synonym, the most likely first. Normalizes `name` like
/// keys_meant_by().
std::vector<std::string> paths_of_synonym(std::string_view name);

/// The paths of the keys that a user probably meant by `name`, most likely first: the keys with
/// this name in any section, or else the keys with this synonym, such as schedule.learning_rate for
/// "lr". Empty for an unknown name. Ignores letter case and treats `-` as `_`. Used only in hints:
/// configs do not accept synonyms.
std::vector<std::string> keys_meant_by(std::string_view name);

/// The value of a key that a user probably meant by a name from another program, such as
/// parallel_text for data.task: translation. nullopt for an unknown name.
///
/// values  the valid values
std::optional<std::string> value_meant_by(std::string_view path, std::string_view text,
                                          std::span<const std::string> values);

/// A hint for the key of a feature that this program does not have, such as `device`.
std::optional<std::string> hint_for_missing_feature(std::string_view name);

}  // namespace tapestry
