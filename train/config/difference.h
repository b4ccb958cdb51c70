// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace tapestry {

/// A key with two different values, as YAML text.
struct ConfigDifference {
  std::string key;         ///< `section.key`
  std::string checkpoint;  ///< value in the config of the checkpoint
  std::string current;     ///< value in the current config
};

/// The keys whose values differ between the config of a checkpoint and the current config, in file
/// order.
std::vector<ConfigDifference> compare_configs(const Config& checkpoint, const Config& current);

/// Formats a difference as "train.steps: 2000 -> 4000".
std::string to_string(const ConfigDifference& difference);

}  // namespace tapestry
