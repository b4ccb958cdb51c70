#include "train/checkpoint/resume_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/suggestions.h"
#include "train/config/text.h"

namespace tapestry {
namespace {

using enum ChangeRule;

[[noreturn]] void refuse_permission(const std::string& key, const std::string& message,
                                    const std::string& hint) {
  refuse_option("--allow-change " + key, message, hint);
}

/// Refuses a `--allow-change` key that does not exist or must never change. Keys of data files can
/// always be allowed.
void check_permission(const std::string& key) {
  const auto rule = change_rule(key);
  if (!rule) {
    std::vector<std::string> keys;
    for (const ConfigKey& known : config_keys()) keys.push_back(known.section + "." + known.key);
    std::vector<std::string> meant = keys_meant_by(key.substr(key.find('.') + 1));
    if (const auto alike = closest(key, keys); alike && meant.empty()) meant = {*alike};
    for (std::string& path : meant) path = fmt::format("`{}`", path);
    refuse_permission(key, "is not a config key",
                      meant.empty() ? "see configs/README.md"
                                    : fmt::format("did you mean {}?", list_in_words(meant)));
  }
  if (rule == never) {
    refuse_permission(key, "cannot change: the saved state would be invalid",
                      "start a new run with it");
  }
}

std::string what_to_do(const ConfigDifference& difference) {
  if (change_rule(difference.key) == with_permission) return "--allow-change " + difference.key;
  return difference.key == "train.run_dir" ? "a run is resumed in its own directory"
                                           : "start a new run";
}

/// A text table with the columns key, checkpoint, config and the option that permits the change.
std::string table(const std::vector<ConfigDifference>& differences) {
  std::size_t key = 3, checkpoint = 10, now = 6;
  for (const ConfigDifference& row : differences) {
    key = std::max(key, row.key.size());
    checkpoint = std::max(checkpoint, row.checkpoint.size());
    now = std::max(now, row.now.size());
  }
  const auto line = [&](std::string_view a, std::string_view b, std::string_view c,
                        std::string_view d) {
    return fmt::format("\n  {:<{}}  {:<{}}  {:<{}}  {}", a, key, b, checkpoint, c, now, d);
  };
  std::string text = line("key", "checkpoint", "config", "to change it");
  for (const ConfigDifference& row : differences) {
    text += line(row.key, row.checkpoint, row.now, what_to_do(row));
  }
  return text;
}

}  // namespace

std::optional<ChangeRule> change_rule(std::string_view key) {
  std::optional<ChangeRule> rule;
  const Config defaults;
  for_each_field(defaults, [&](const Field& field, const FieldValue&, const Domain&) {
    if (field.path() == key) rule = field.rule.change;
  });
  return rule;
}

ConfigChanges sort_changes(const std::string& run, const std::vector<ConfigDifference>& differences,
                           const std::vector<std::string>& allowed) {
  for (const std::string& key : allowed) check_permission(key);
  ConfigChanges changes;
  std::vector<ConfigDifference> refused;
  for (const ConfigDifference& difference : differences) {
    const auto rule = change_rule(difference.key);
    const bool granted =
        rule == with_permission && std::ranges::find(allowed, difference.key) != allowed.end();
    (rule == free ? changes.taken : granted ? changes.allowed : refused).push_back(difference);
  }
  if (!refused.empty()) {
    throw ConfigError({{.place = {.file = run},
                        .message = "the config differs from the checkpoint in keys that affect "
                                   "the run" +
                                   table(refused),
                        .hint = "resume with the saved config, or follow the last column"}});
  }
  return changes;
}

std::string to_string(const ConfigDifference& difference) {
  return fmt::format("{}: {} -> {}", difference.key, difference.checkpoint, difference.now);
}

}  // namespace tapestry
