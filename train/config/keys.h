// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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

/// The description of a key in help, tables, manual pages and shell completion.
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

  /// `optimizer.momentum`
  std::string path() const { return section + "." + key; }
};

/// All keys in file order.
std::vector<ConfigKey> config_keys();

}  // namespace tapestry
