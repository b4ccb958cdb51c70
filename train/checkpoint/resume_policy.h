#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/fields.h"

/// What a run may change when it is resumed.
namespace tapestry {

/// The rule for a key such as `train.steps`, or nothing for what is no key.
std::optional<ChangeRule> change_rule(std::string_view key);

/// The changes between the config of a checkpoint and the one to go on with.
struct ConfigChanges {
  std::vector<ConfigDifference> taken;    ///< free
  std::vector<ConfigDifference> allowed;  ///< with permission of the user; to be recorded
};

/// Sorts the differences by their rules.
///
/// run      named in errors
/// allowed  keys that the user lets change
/// throws   ConfigError: one table of all differences that are refused, with key, checkpoint,
///          config and what to do; or if `allowed` has what is no key or can never change.
ConfigChanges sort_changes(const std::string& run, const std::vector<ConfigDifference>& differences,
                           const std::vector<std::string>& allowed);

/// "train.steps: 2000 -> 4000"
std::string to_string(const ConfigDifference& difference);

}  // namespace tapestry
