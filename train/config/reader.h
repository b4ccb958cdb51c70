// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/keys.h"

namespace tapestry {

struct Field;    // see train/config/fields.h
class YamlText;  // see train/config/yaml_text.h

/// The place where a key was last set.
struct Origin {
  Place place;               ///< place of the key
  bool valid;                ///< whether the value is in the domain of the key
  bool in_override = false;  ///< whether it was set on the command line
  /// For each path in the value, whether it was relative before it was made absolute.
  std::vector<bool> relative{};
};

/// The places where keys were set, by `section.key`. Keys that were not set are missing.
using Origins = std::map<std::string, Origin, std::less<>>;

/// A config with the origins of its values.
struct ConfigWithOrigins {
  Config config;
  Origins origins;
};

/// Like load_config(), but also returns the origins of the values.
///
/// files_required  see check_rules()
ConfigWithOrigins load_config_with_origins(const std::string& path,
                                           const std::vector<std::string>& overrides = {},
                                           bool files_required = true);

/// Sets keys of a Config from YAML texts and overrides. Later values replace earlier ones. Reports
/// unknown names and invalid values. A key with an invalid value keeps its previous value.
class ConfigReader {
 public:
  using Folder = std::optional<std::filesystem::path>;

  /// config  receives the values; must outlive the reader
  /// errors  receives the errors; must outlive the reader
  ConfigReader(Config& config, Diagnostics& errors) : config_(config), errors_(errors) {}

  /// Reads all keys of a text, except in sections `x-NAME`, which hold anchors. Resolves relative
  /// paths of data files against `folder`; without `folder`, they stay relative.
  void read(YamlText& text, const Folder& folder);

  /// Reads an override of the form section.key=value.
  void read(const std::string& override, const Folder& folder);

  /// The origins of the keys that have been set so far.
  const Origins& origins() const { return origins_; }

 private:
  /// The unparsed value of a key.
  struct Given {
    Place key_place;
    /// Text for Domain::parse(); nullopt if the value is neither a scalar nor a list of scalars.
    std::optional<std::string> text;
    std::string_view kind;  ///< kind of YAML node, such as `a list`
    Place value_place;
    bool in_override = false;
    std::string model_kind;  ///< model.kind of the config; may be invalid
  };

  bool check_section(const Place& place, const std::string& section);
  /// chosen  a config with the data.task and model.kind of the text
  bool check_key(const Place& place, const std::string& section, const std::string& key,
                 const Config& chosen);
  /// Sets the config keys of `values`, a map from `section.key` to the given value.
  void set(const std::map<std::string, Given>& values, const Folder& folder);
  /// Sets the value, or reports an error. Returns whether the value is valid.
  bool set_value(Field& field, const Given& given);
  /// Makes relative paths in the value absolute, or reports an error. Returns whether they are
  /// valid.
  bool resolve_paths(Field& field, const Given& given, const Folder& folder, Origin& origin);

  Config& config_;
  Diagnostics& errors_;
  const std::vector<ConfigKey> keys_ = config_keys();
  Origins origins_{};
};

}  // namespace tapestry
