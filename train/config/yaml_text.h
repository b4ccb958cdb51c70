// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <yaml-cpp/node/node.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/error.h"

namespace tapestry {

/// The corrected form of a line such as `d_model:128`, `d_model 128` or `d_model = 128`; nullopt
/// for other lines.
std::optional<std::string> with_colon_and_space(std::string_view line);

/// A key of a map in a YAML text, with its value.
struct YamlEntry {
  std::string key;
  YAML::Node value;
  Place key_place;
  Place value_place;  ///< place of the value or its alias, or of the key if the value is missing
};

/// The kind of a node in messages: `a value`, `nothing`, `a list` or `a map`.
std::string_view describe(const YAML::Node& node);

/// A YAML text, parsed by yaml-cpp. Supports anchors, aliases and merge keys (`<<`). Rejects tags,
/// second documents, quotes that are not closed on their line and control characters.
///
/// Reads scalars as strings, since yaml-cpp converts 010 to 8 and 0x10 to 16.
class YamlText {
 public:
  /// The maximum length of a line in bytes.
  static constexpr std::size_t max_line_length = 4096;
  /// The maximum number of merges. Without a limit, reading a map that merges itself would never
  /// end, and nested merges would grow exponentially.
  static constexpr std::size_t max_merged_maps = 100;

  /// Parses `text`. After a syntax error, the object contains the lines before the error if they
  /// can be parsed.
  ///
  /// name    file name in messages
  /// errors  receives the errors; must outlive the object
  YamlText(std::string name, std::string_view text, Diagnostics& errors);

  /// The top-level keys in file order.
  std::vector<YamlEntry> sections() { return entries({}, root_); }

  /// The distinct keys of a map: its own keys in file order, then merged keys. A key of the map has
  /// precedence over merged keys, and an earlier merged map has precedence over a later merged map.
  /// Omits keys and values with errors.
  ///
  /// section  name of the map in messages; empty for the whole text
  std::vector<YamlEntry> entries(const std::string& section, const YAML::Node& map);

 private:
  /// The entries of a map collected so far.
  struct Collected {
    std::string section;
    std::vector<YamlEntry> entries{};
    std::set<std::string> keys{};
  };

  bool check_characters(std::string_view text);
  bool check_lines();
  YAML::Node parse(const std::string& text);
  void set_root(const YAML::Node& first);

  void collect(const YAML::Node& map, Collected& collected);
  std::vector<YAML::Node> maps_to_merge(const YAML::Node& key, const YAML::Node& value);
  bool check_key(const YAML::Node& key);
  bool check_value(const YamlEntry& entry);
  bool check_scalar(const YAML::Node& scalar, const Place& place);

  void report(const YAML::Node& node, std::string message, std::string hint);
  /// The source text from a node to the end of its line, without the anchor of the node.
  std::string_view written(const YAML::Node& node) const;
  Place place(const YAML::Node& node) const;
  Place place_of_value(const YAML::Node& key, const YAML::Node& value) const;
  /// line, column, length  in bytes, from 0
  Place place(std::size_t line, std::size_t column, std::size_t length = 1) const;

  std::string name_;
  std::vector<std::string> lines_{};
  Diagnostics& errors_;
  YAML::Node root_{YAML::NodeType::Map};
  std::size_t merged_maps_ = 0;
};

}  // namespace tapestry
