// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/config/keys.h"

namespace tapestry {

/// A key of a config, with its value and where the value comes from.
struct ExplainedKey {
  ConfigKey key;
  std::string value;              ///< as in YAML; the number if it was given as a percentage
  std::optional<double> percent;  ///< percentage of train.steps, if given as one
  std::string origin;             ///< `configs/copy.yaml:12`, `command line` or `default`
  bool in_use;                    ///< false if the chosen kinds do not use the key
};

/// Every key of a config file with overrides, in file order.
///
/// throws  ConfigError as load_config()
std::vector<ExplainedKey> explain_config(const std::string& path,
                                         const std::vector<std::string>& overrides);

/// The keys as a config file with every key, which load_config() reads as the same config. A
/// comment next to each value has its origin, and the default if the value is another one; a
/// comment above it the meaning and the valid values. Keys that are not in use are comments.
std::string to_yaml(const std::vector<ExplainedKey>& keys);

}  // namespace tapestry
