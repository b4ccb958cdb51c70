// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/domain.h"
#include "train/config/keys.h"

namespace tapestry {

/// The condition under which a key is used: `momentum` is used only with `optimizer.kind: sgd`.
struct Condition {
  std::string key;                  ///< `optimizer.kind`; empty if the condition always holds
  std::vector<std::string> values;  ///< the values of `key` for which the condition holds
  std::string current;              ///< the value of `key` in this config

  bool holds() const;
};

/// States whether a key is stored in checkpoints, and whether it may change when a run is resumed.
struct SavePolicy {
  // Implicit, since most keys need only a ChangeRule.
  constexpr SavePolicy(ChangeRule rule) : change(rule) {}

  ChangeRule change;
  bool stored = true;  ///< false for process settings, see with_process_settings()
};

/// The policy of a process setting, which is not stored in checkpoints.
constexpr SavePolicy process_setting(ChangeRule change) {
  SavePolicy policy(change);
  policy.stored = false;
  return policy;
}

/// A config key and its value in a config.
struct Field {
  std::string_view section;
  std::string_view key;
  Domain domain;
  SavePolicy policy;
  std::string_view meaning;
  Condition condition;
  bool custom;  ///< whether the key is a CustomKey
  FieldValue value;

  std::string path() const { return std::string(section) + "." + std::string(key); }
  /// Whether the config uses the key.
  bool in_use() const { return condition.holds(); }
  /// The value as YAML text.
  std::string printed() const { return domain.print(value); }
};

/// Maximum number of steps of a run.
inline constexpr std::uint64_t max_step_count = 1'000'000'000'000;

/// Every key of `config` in file order. This is the only list of keys: parsing, range checks,
/// dumping, comparing, resuming, help and schema are derived from it. Tasks and model kinds define
/// which keys they use, and may add keys (CustomKey).
std::vector<Field> fields_of(const Config& config);

/// Calls f for every key of `config` in file order, and stores the values that f changes in
/// `config`.
void for_each_field(Config& config, const std::function<void(Field&)>& f);

/// The key with a path such as `train.threads`, with its default value; nullopt for an unknown key.
std::optional<Field> find_field(std::string_view path);

/// Whether a key such as `train.threads` is a process setting, see SavePolicy.
bool is_process_setting(std::string_view path);

}  // namespace tapestry
