#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/domain.h"

namespace tapestry {

/// A key that is used only for certain values of another key (the selector): `momentum` is used
/// only with `optimizer.kind: sgd`.
struct Use {
  std::string selector;              ///< `optimizer.kind`; empty if the key is always used
  std::vector<std::string> choices;  ///< values of the selector that use the key
  std::string current;               ///< value of the selector in this config

  bool in_use() const;
};

/// Treatment of the value of a key when a run is saved and resumed.
struct KeyRule {
  // Not explicit: most keys have a ChangeRule only.
  constexpr KeyRule(ChangeRule on_change) : change(on_change) {}

  ChangeRule change;
  bool stored = true;  ///< false for settings of this process, see with_process_settings()
};

/// The rule of a key that belongs to the process and is not stored in checkpoints.
constexpr KeyRule of_process(ChangeRule change) {
  KeyRule rule(change);
  rule.stored = false;
  return rule;
}

/// A config key with its value in a config.
struct Field {
  std::string_view section;
  std::string_view key;
  Domain domain;
  KeyRule rule;
  std::string_view meaning;
  Use use;
  bool custom;  ///< whether it is a CustomKey
  FieldValue value;

  std::string path() const { return std::string(section) + "." + std::string(key); }
  /// The value as YAML text.
  std::string printed() const { return domain.print(value); }
};

/// The largest number of steps of a run.
inline constexpr std::uint64_t max_step_count = 1'000'000'000'000;

/// Every key of `config` in file order. This is the only list of keys: parsing, range checks,
/// dumping, comparing, resuming, help and configs/README.md are derived from it. Tasks and model
/// kinds define which keys they use, and may add keys (CustomKey).
std::vector<Field> fields_of(const Config& config);

/// Calls f for every key of `config` in file order; the config takes over changes of the value.
void for_each_field(Config& config, const std::function<void(Field&)>& f);

/// The key of a path such as `train.threads` with its default; nullopt for an unknown key.
std::optional<Field> find_field(std::string_view path);

/// Whether a key such as `train.threads` is a setting of the process, see KeyRule.
bool is_process_setting(std::string_view path);

}  // namespace tapestry
