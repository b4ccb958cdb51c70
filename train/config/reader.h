#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/yaml_document.h"

namespace tapestry {

/// Where a key was last given a value.
struct Origin {
  Place place;               ///< of the key
  bool valid;                ///< whether the value is in the domain of the key
  bool in_override = false;  ///< given on the command line
  /// For each path of the value, whether it was a relative one that was made absolute.
  std::vector<bool> relative{};
};

/// The keys that were given, by `section.key`.
using Origins = std::map<std::string, Origin, std::less<>>;  // ConfigCheck::Origins

/// A config, and where each of its keys was given.
struct ConfigWithOrigins {
  Config config;
  Origins origins;
};

/// load_config() with the origins of the values.
ConfigWithOrigins load_config_with_origins(const std::string& path,
                                           const std::vector<std::string>& overrides = {});

/// Fills a Config from documents and overrides; later values replace earlier ones. Reports unknown
/// names and values outside their domain. A key with an invalid value keeps its previous value.
class ConfigReader {
 public:
  /// A reader into `config` that adds what it finds wrong to `problems`; both must outlive it.
  ConfigReader(Config& config, ProblemList& problems) : config_(config), problems_(problems) {}

  /// Reads all keys of a document. Relative paths to data start at `folder`; without `folder` they
  /// are not changed.
  void read(const YamlDocument& document, const std::optional<std::filesystem::path>& folder);

  /// Reads one value of the command line; `override` has the form section.key=value.
  void read(const std::string& override, const std::optional<std::filesystem::path>& folder);

  /// Where each key was given, of all that was read.
  const Origins& origins() const { return origins_; }

 private:
  using Folder = std::optional<std::filesystem::path>;

  /// The value given for a key.
  struct Given {
    YamlKind kind;
    std::string text;  ///< of a list whose items are texts: as print_list() writes it
    Place place;
    bool in_override = false;
  };

  bool check_section(const YamlDocument& document, const YamlSection& section);
  /// chosen  has the values of data.task and model.kind that the config chooses
  bool check_key(const Place& place, const std::string& section, const std::string& key,
                 const Config& chosen);
  void give(const std::string& path, const Place& place, const Given& given, const Folder& folder);

  Config& config_;
  ProblemList& problems_;
  Origins origins_;
};

}  // namespace tapestry
