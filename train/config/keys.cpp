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

std::string used_with(const Condition& condition) {
  if (condition.key.empty()) return {};
  return fmt::format("{}: {}", condition.key, list_in_words(condition.values));
}

}  // namespace

std::vector<ConfigKey> config_keys() {
  std::vector<ConfigKey> keys;
  for (const Field& field : fields_of(Config())) {
    keys.push_back({std::string(field.section), std::string(field.key), field.domain.expected(),
                    field.printed(), std::string(field.meaning), used_with(field.condition),
                    field.policy.change, field.domain.words(), field.domain.is_path()});
  }
  return keys;
}

}  // namespace tapestry
