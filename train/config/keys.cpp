// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/keys.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/config/domain.h"
#include "train/config/fields.h"

namespace tapestry {
namespace {

/// Formats the condition as "optimizer.kind: sgd or adam"; empty for a key that is always used.
std::string used_with(const Condition& condition) {
  if (condition.key.empty()) return {};
  return fmt::format("{}: {}", condition.key, list_in_words(condition.values));
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

}  // namespace tapestry
