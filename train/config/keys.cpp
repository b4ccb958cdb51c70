// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/config/config.h"
#include "train/config/domain.h"
#include "train/config/fields.h"
#include "train/config/reader.h"

namespace tapestry {
namespace {

/// Formats the condition as "optimizer.kind: sgd or adam"; empty for a key that is always used.
std::string used_with(const Condition& condition) {
  if (condition.key.empty()) return {};
  return fmt::format("{}: {}", condition.key, list_in_words(condition.values));
}

std::string describe_origin(const std::string& path, const Origins& origins) {
  const auto found = origins.find(path);
  if (found == origins.end()) return "default";
  const Origin& origin = found->second;
  if (origin.in_override) return "command line";
  return fmt::format("{}:{}", origin.place.file, origin.place.line);
}

/// Formats the origin and the default of a value, for the comment next to the value.
std::string comment_beside(const ExplainedKey& each) {
  std::string text = each.origin;
  if (each.percent && !each.value.ends_with('%'))
    text += fmt::format(", given as {}% of train.steps", *each.percent);
  if (each.value != each.key.default_value) {
    text += fmt::format("; default {}", each.key.default_value);
  }
  return text;
}

std::string comment_above(const ExplainedKey& each) {
  std::string text = fmt::format("{} ({})", each.key.meaning, each.key.expected);
  if (!each.in_use) text += fmt::format("; not used, only with {}", each.key.used_with);
  return text;
}

}  // namespace

std::vector<ConfigKey> config_keys() {
  std::vector<ConfigKey> keys;
  for (const Field& field : fields_of(Config())) {
    keys.push_back({.section = std::string(field.section),
                    .key = std::string(field.key),
                    .expected = field.domain.expected(),
                    .default_value = field.printed(),
                    .meaning = std::string(field.meaning),
                    .used_with = used_with(field.condition),
                    .change = field.policy.change,
                    .choices = field.domain.words(),
                    .is_path = field.domain.is_path()});
  }
  return keys;
}

std::vector<ExplainedKey> explain_config(const std::string& path,
                                         const std::vector<std::string>& overrides) {
  const ConfigWithOrigins loaded = load_config_with_origins(path, overrides, false);
  const bool by_epochs = loaded.config.train.epochs != 0;
  const auto& percentages = loaded.config.step_percentages;
  std::vector<ConfigKey> keys = config_keys();
  std::vector<ExplainedKey> explained;
  for (const Field& field : fields_of(loaded.config)) {
    const std::string name = field.path();
    const auto percentage = percentages.find(name);
    const bool given_in_percent = percentage != percentages.end();
    explained.push_back(
        {.key = std::move(keys.at(explained.size())),
         .value = by_epochs && given_in_percent ? fmt::format("{}%", percentage->second.percent)
                                                : field.printed(),
         .percent = given_in_percent ? std::optional(percentage->second.percent) : std::nullopt,
         .origin = describe_origin(name, loaded.origins),
         .in_use = field.in_use()});
    if (by_epochs && name == "train.steps") {
      explained.back().in_use = false;
      explained.back().key.used_with = "train.epochs: 0";
    }
  }
  return explained;
}

std::string to_yaml(const std::vector<ExplainedKey>& keys) {
  std::string text;
  std::string_view section;
  for (const ExplainedKey& each : keys) {
    if (each.key.section != section) {
      const bool used = std::ranges::any_of(keys, [&](const ExplainedKey& other) {
        return other.key.section == each.key.section && other.in_use;
      });
      text +=
          fmt::format("{}{}{}:\n", text.empty() ? "" : "\n", used ? "" : "# ", each.key.section);
    }
    section = each.key.section;
    const std::string assignment =
        fmt::format("{}{}: {}", each.in_use ? "" : "# ", each.key.key, each.value);
    text += fmt::format("  # {}\n  {:<32} # {}\n", comment_above(each), assignment,
                        comment_beside(each));
  }
  return text;
}

}  // namespace tapestry
