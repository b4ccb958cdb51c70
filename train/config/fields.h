#pragma once

#include <cstdint>
#include <functional>
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

/// Description of one config key; its value and domain are passed separately.
struct Field {
  std::string_view section;
  std::string_view key;
  std::string_view meaning;
  KeyRule rule;
  Use use;
  bool custom = false;  ///< whether it is a CustomKey

  std::string path() const { return std::string(section) + "." + std::string(key); }
};

/// The largest number of steps of a run.
inline constexpr std::uint64_t max_step_count = 1'000'000'000'000;

/// Calls f(field, value, domain) for every key of `config` in file order; the config takes over
/// changes that f makes in `value`. This is the only list of keys: parsing, range checks, dumping,
/// comparing, resuming, help and configs/README.md are derived from it. Tasks and model kinds
/// define which keys they use, and may add keys (CustomKey).
void for_each_field(Config& config,
                    const std::function<void(const Field&, FieldValue&, const Domain&)>& f);
/// Read-only version.
void for_each_field(const Config& config,
                    const std::function<void(const Field&, const FieldValue&, const Domain&)>& f);

/// Whether a key such as `train.threads` is a setting of the process, see KeyRule.
bool is_process_setting(std::string_view path);

}  // namespace tapestry
