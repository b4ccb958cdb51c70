#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/config/config.h"
#include "train/config/domains.h"
#include "train/config/error.h"
#include "train/config/reader.h"

namespace tapestry {

/// Collects the contradictions that rules find.
class ConfigCheck {
 public:
  /// Keys by path, such as "model.num_heads".
  using Keys = std::initializer_list<std::string_view>;

  /// A check of a config whose keys were given at `origins`; both arguments must outlive it.
  ConfigCheck(const Origins& origins, ProblemList& problems)
      : origins_(origins), problems_(problems) {}

  /// Reports a contradiction between `keys` at the first of them that was given. Reports nothing if
  /// one of their values is invalid, since the intended value is then unknown.
  void refuse(Keys keys, std::string message, std::string hint) const;

 private:
  const Origins& origins_;
  ProblemList& problems_;
};

/// Whether the value of a key may change when a run is resumed.
enum class ChangeRule {
  free,  ///< affects output, duration or machine, not the results of a step. Data paths are free,
         ///< since files are identified by content
  with_permission,  ///< the state stays valid, but results change: needs --allow-change KEY
  never             ///< the state would be invalid: shapes, vocabulary, task, seed, data order
};

/// A key that a kind adds to the config: of a model or task outside of this library. Its value is
/// read with Config::custom_value().
struct CustomKey {
  std::string_view section;  ///< data, model, optimizer, schedule or train
  std::string_view key;      ///< its name in the section
  std::variant<WholeNumber, RealNumber, Flag, Text> domain;  ///< its valid values
  CustomValue initial;  ///< the default: std::uint64_t, double, bool or std::string, as the domain
  std::string_view meaning;             ///< one line of help
  ChangeRule rule = ChangeRule::never;  ///< whether its value may change on resume

  /// "section.key"
  std::string path() const { return std::string(section) + "." + std::string(key); }
};

/// A value of `data.task` or `model.kind`, with its keys and rules.
struct ConfigKind {
  std::string_view name;  ///< the value

  /// Keys that are used only with some kinds, including this one, such as "data.num_symbols". A key
  /// that no kind lists is used with all kinds.
  std::vector<std::string_view> keys{};

  /// Keys that exist only for this kind.
  std::vector<CustomKey> custom_keys{};

  /// Reports values that are valid individually but contradict each other.
  void (*check)(const Config&, const ConfigCheck&) = [](const Config&, const ConfigCheck&) {};
};

// The three functions are defined in train/tasks/. A config must not include tasks, which are
// created from configs.

/// All values of `data.task`, in the order in which messages list them.
const std::vector<ConfigKind>& data_tasks();

/// All values of `model.kind`.
const std::vector<ConfigKind>& model_kinds();

/// The values of `data.task` that a kind of model supports.
std::vector<std::string> data_tasks_for(std::string_view model_kind);

/// Reports values that are valid individually but contradict each other, and keys that the chosen
/// task, optimizer or schedule does not use.
void check_rules(const Config& config, const Origins& origins, ProblemList& problems);

}  // namespace tapestry
