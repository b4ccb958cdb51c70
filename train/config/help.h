#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"

/// Help on keys.
namespace tapestry {

/// The keys, by path, that a user who wrote `name` as the name of a key probably meant, the most
/// likely first: the keys of this name in all sections; otherwise the keys that other
/// programs and papers call so, such as schedule.learning_rate for "lr". Empty for an unknown name.
/// Letter case is ignored and `-` equals `_`. For hints; a config is never read by these names.
std::vector<std::string> keys_meant_by(std::string_view name);

/// The names of other programs that keys_meant_by() knows.
std::set<std::string_view> foreign_key_names();

/// A key of a config, with its value and where the value comes from.
struct ExplainedKey {
  ConfigKey key;
  std::string value;              ///< as in YAML; the number if it was given as a percentage
  std::optional<double> percent;  ///< of train.steps, if it was given so
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

/// A JSON Schema (draft 7) of config files, for completion and validation in editors: all sections
/// and keys, with meanings, defaults, types, ranges and choices.
///
/// It also has the rules between keys that are lists of values: which keys the values of another
/// key use, and the data and scores of each kind of model. It has no rules that compare or compute
/// numbers, such as that `d_model` is a multiple of `num_heads`, does not look at files, and is
/// stricter where YAML has types: a number in quotes, which a config may have, is a text to it.
std::string config_schema();

}  // namespace tapestry
