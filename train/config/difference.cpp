// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/difference.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "train/config/fields.h"

namespace tapestry {

std::vector<ConfigDifference> compare_configs(const Config& checkpoint, const Config& current) {
  const std::vector<Field> before = fields_of(checkpoint), after = fields_of(current);
  std::vector<ConfigDifference> differences;
  for (std::size_t i = 0; i < after.size(); ++i) {
    std::string old_value = before[i].printed(), new_value = after[i].printed();
    if (old_value == new_value) continue;
    differences.push_back({after[i].path(), std::move(old_value), std::move(new_value)});
  }
  return differences;
}

std::string to_string(const ConfigDifference& difference) {
  return fmt::format("{}: {} -> {}", difference.key, difference.checkpoint, difference.current);
}

}  // namespace tapestry
