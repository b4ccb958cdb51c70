#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/yaml_document.h"

namespace tapestry {

/// Where a key was given a value last.
struct Origin {
  Place place;  ///< of the key
  bool valid;   ///< the value lies in the domain of the key
};

/// Of the keys that were given, by `section.key`.
using Origins = std::map<std::string, Origin, std::less<>>;

/// Fills a Config from documents and overrides, the last word winning, and reports unknown names
/// and values outside their domain. A key with a bad value keeps the value it had.
class ConfigReader {
 public:
  ConfigReader(Config& config, ProblemList& problems) : config_(config), problems_(problems) {}

  /// Relative paths to data start at `folder`; without it they stay as they are.
  void read(const YamlDocument& document, const std::optional<std::filesystem::path>& folder);

  /// `override` has the form section.key=value.
  void read(const std::string& override, const std::optional<std::filesystem::path>& folder);

  const Origins& origins() const { return origins_; }

 private:
  using Folder = std::optional<std::filesystem::path>;

  /// What stands to the right of a key.
  struct Given {
    YamlKind kind;
    std::string_view text;
    Place place;
  };

  bool check_section(const YamlDocument& document, const YamlSection& section);
  bool check_key(const Place& place, const std::string& section, const std::string& key);
  void give(const std::string& path, const Place& place, const Given& given, const Folder& folder);

  Config& config_;
  ProblemList& problems_;
  Origins origins_;
};

}  // namespace tapestry
