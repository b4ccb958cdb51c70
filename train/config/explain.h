// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/config/keys.h"

namespace tapestry {

/// A key of a config, with its value and the origin of the value.
struct ExplainedKey {
  ConfigKey key;
  /// YAML text. A percentage is resolved to a number, except with train.epochs, which needs the
  /// data.
  std::string value;
  std::optional<double> percent;  ///< percentage of train.steps, if the config has a percentage
  std::string origin;             ///< `configs/copy.yaml:12`, `command line` or `default`
  bool in_use;                    ///< false if the chosen kinds do not use the key
};

/// Every key of a config file with overrides, in file order. Data files need not be named.
///
/// throws  ConfigError like load_config()
std::vector<ExplainedKey> explain_config(const std::string& path,
                                         const std::vector<std::string>& overrides);

/// The keys as the text of a config file. load_config() of the file returns the same config. The
/// comment above each key has its meaning and valid values. The comment next to the key has the
/// origin of its value, and the default if the value differs. Unused keys are commented out.
std::string to_yaml(const std::vector<ExplainedKey>& keys);

}  // namespace tapestry
