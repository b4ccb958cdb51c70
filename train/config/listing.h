#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace tapestry {

/// A key as help and tables show it.
struct ConfigKey {
  std::string section;
  std::string key;
  std::string expected;       ///< `a whole number >= 1`
  std::string default_value;  ///< as in YAML
  std::string meaning;
  std::string used_with;  ///< `optimizer.kind: sgd`; empty if always
};

/// All keys in the order of the file.
std::vector<ConfigKey> config_keys();

/// `config` as YAML text with every key; parse_config() of it gives the same config.
std::string dump_config(const Config& config);

/// A key with two values, as in YAML.
struct ConfigDifference {
  std::string key;  ///< `section.key`
  std::string checkpoint;
  std::string now;
};

/// The keys in which the config of a checkpoint differs from the one at hand, in the order of the
/// file.
std::vector<ConfigDifference> compare_configs(const Config& checkpoint, const Config& now);

}  // namespace tapestry
