// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tapestry {

/// Whether the value of a key may change when a run is resumed.
enum class ChangeRule {
  free,  ///< does not affect the results of a step. Includes data paths, since files are identified
         ///< by content
  with_permission,  ///< the state stays valid, but results change: requires --allow-change KEY
  never             ///< the state would be invalid: shapes, vocabulary, task, seed, data order
};

/// The description of a key for help, tables, manual pages and shell completion.
struct ConfigKey {
  std::string section;        ///< `optimizer`
  std::string key;            ///< `momentum`
  std::string expected;       ///< `a whole number >= 1`
  std::string default_value;  ///< YAML text
  std::string meaning;        ///< one line of help
  std::string used_with;      ///< condition such as `optimizer.kind: sgd`; empty if always used
  ChangeRule change;          ///< whether a resumed run may change it
  std::vector<std::string> choices;  ///< valid words; empty if values are numbers or any text
  bool is_path;                      ///< whether the value is a path of data

  /// The path of the key, such as `optimizer.momentum`.
  std::string path() const { return section + "." + key; }
};

/// All keys in file order.
std::vector<ConfigKey> config_keys();

/// A key of a config, with its value and the origin of the value.
struct ExplainedKey {
  ConfigKey key;  ///< its description
  /// YAML text. A percentage is resolved to a number, except with train.epochs, which needs the
  /// data.
  std::string value;
  std::optional<double> percent;  ///< percentage of train.steps, if the config has a percentage
  std::string origin;             ///< `configs/copy.yaml:12`, `command line` or `default`
  bool in_use;                    ///< false if the chosen kinds do not use the key
};

/// Every key of a config file with overrides, in file order. Does not require data files.
///
/// throws  ConfigError like load_config()
std::vector<ExplainedKey> explain_config(const std::string& path,
                                         const std::vector<std::string>& overrides);

/// The keys as the text of a config file. load_config() of the file returns the same config. The
/// comment above each key states its meaning and valid values. The comment next to the key states
/// the origin of its value, and the default if the value differs. Unused keys are commented out.
std::string to_yaml(const std::vector<ExplainedKey>& keys);

/// A JSON Schema (draft 7) of config files, for completion and validation in editors: all sections
/// and keys, with meanings, defaults, types, ranges and choices.
///
/// Includes rules between keys that can be written as lists of values: which keys are used
/// depending on the value of another key, and the data tasks and scores of each kind of model.
/// Omits rules that compare or compute numbers, such as `d_model` being a multiple of `num_heads`,
/// and checks of files. The schema is stricter than the program about types: it rejects a number in
/// quotes.
std::string config_schema();

}  // namespace tapestry
