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

struct Field;    // train/config/fields.h
class YamlText;  // train/config/yaml_text.h

/// Where a key was last given a value.
struct Origin {
  Place place;               ///< place of the key
  bool valid;                ///< whether the value is in the domain of the key
  bool in_override = false;  ///< given on the command line
  /// For each path of the value, whether it was a relative one that was made absolute.
  std::vector<bool> relative{};
};

/// The keys that were given, by `section.key`.
using Origins = std::map<std::string, Origin, std::less<>>;

/// A config, and where each of its keys was given.
struct ConfigWithOrigins {
  Config config;
  Origins origins;
};

/// load_config() with the origins of the values.
ConfigWithOrigins load_config_with_origins(const std::string& path,
                                           const std::vector<std::string>& overrides = {});

/// Fills a Config from YAML texts and overrides; later values replace earlier ones. Reports unknown
/// names and values outside their domain. A key with an invalid value keeps its previous value.
class ConfigReader {
 public:
  using Folder = std::optional<std::filesystem::path>;

  /// A reader into `config` that adds what it finds wrong to `errors`; both must outlive it.
  ConfigReader(Config& config, Diagnostics& errors) : config_(config), errors_(errors) {}

  /// Reads all keys of a text, except in sections `x-NAME`, which hold anchors. Relative paths to
  /// data start at `folder`; without `folder` they are not changed.
  void read(YamlText& text, const Folder& folder);

  /// Reads one value of the command line; `override` has the form section.key=value.
  void read(const std::string& override, const Folder& folder);

  /// Where each key was given in all that was read.
  const Origins& origins() const { return origins_; }

 private:
  /// The value given for a key.
  struct Given {
    std::optional<std::string>
        text;               ///< for Domain::parse(); nullopt if it is neither text nor list
    std::string_view kind;  ///< `a list`
    Place place;
    bool in_override = false;
  };

  bool check_section(const Place& place, const std::string& section);
  /// chosen  has the values of data.task and model.kind that the config chooses
  bool check_key(const Place& place, const std::string& section, const std::string& key,
                 const Config& chosen);
  void give(const std::string& path, const Place& place, const Given& given, const Folder& folder);
  /// Returns whether the value is valid.
  bool set_value(Field& field, const Given& given);

  Config& config_;
  Diagnostics& errors_;
  const std::vector<ConfigKey> keys_ = config_keys();
  Origins origins_{};
};

}  // namespace tapestry
