#include "optim/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "autograd/error.h"

namespace tapestry {
namespace {

std::string_view path_without_dot(const ParameterGroup& group) {
  std::string_view path = group.path;
  if (path.ends_with('.')) path.remove_suffix(1);
  return path;
}

void require_not_negative(const char* field, const ParameterGroup& group, double value) {
  if (value >= 0.0 && std::isfinite(value)) return;
  throw ValueError(fmt::format("optimizer: {} of group `{}` is {}, expected a finite number >= 0",
                               field, group.path, printable(value)));
}

/// The groups, those with shorter paths first. Throws ValueError if two have the same path.
std::vector<ParameterGroup> from_short_to_long(std::span<const ParameterGroup> groups) {
  std::vector<ParameterGroup> sorted(groups.begin(), groups.end());
  std::ranges::sort(sorted, {}, [](const ParameterGroup& group) {
    return std::pair(path_without_dot(group).size(), path_without_dot(group));
  });
  const auto twice = std::ranges::adjacent_find(sorted, {}, path_without_dot);
  if (twice != sorted.end()) {
    throw ValueError(fmt::format("optimizer: two groups have the path `{}`, expected one",
                                 path_without_dot(*twice)));
  }
  return sorted;
}

}  // namespace

GroupedParameters::GroupedParameters(std::span<const NamedTensor> parameters, double weight_decay,
                                     std::span<const ParameterGroup> groups)
    : groups_{{.learning_rate_factor = 1.0, .weight_decay = weight_decay}},
      group_indices_(parameters.size(), 0) {
  for (const ParameterGroup& group : from_short_to_long(groups)) {
    require_not_negative("learning_rate_factor", group, group.learning_rate_factor);
    require_not_negative("weight_decay", group, group.weight_decay.value_or(0.0));
    for (const std::size_t i : indices_below("optimizer: group", group.path, parameters)) {
      group_indices_[i] = groups_.size();
    }
    groups_.push_back({.learning_rate_factor = group.learning_rate_factor,
                       .weight_decay = group.weight_decay.value_or(weight_decay)});
  }
}

}  // namespace tapestry
