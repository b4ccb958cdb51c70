#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"

/// Which config keys may change when a run is resumed.
namespace tapestry {

/// The rule for a key such as `train.steps`; nullopt if the key does not exist.
std::optional<ChangeRule> change_rule(std::string_view key);

/// The differences between the config of a checkpoint and the config to resume with.
struct ConfigChanges {
  std::vector<ConfigDifference> taken;    ///< changes of keys that may change freely
  std::vector<ConfigDifference> allowed;  ///< permitted by the user; recorded in the history
};

/// Classifies the differences by the ChangeRule of their keys.
///
/// run      named in errors
/// allowed  keys given with --allow-change
/// throws   ConfigError with one table of all refused differences: key, checkpoint value, config
///          value and how to permit the change; or if `allowed` has an unknown key or one that can
///          never change.
ConfigChanges sort_changes(const std::string& run, const std::vector<ConfigDifference>& differences,
                           const std::vector<std::string>& allowed);

/// "train.steps: 2000 -> 4000"
std::string to_string(const ConfigDifference& difference);

}  // namespace tapestry
