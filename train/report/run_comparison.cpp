#include "train/report/run_comparison.h"

#include <algorithm>
#include <map>

namespace tapestry {
namespace {

/// Config values that determine the results of a run.
std::vector<Config> without_process_settings(std::span<const Config> configs) {
  std::vector<Config> compared;
  for (const Config& config : configs) compared.push_back(with_process_settings(config, Config{}));
  return compared;
}

}  // namespace

std::vector<DifferingKey> differing_keys(std::span<const Config> configs) {
  if (configs.empty()) return {};
  const std::vector<Config> compared = without_process_settings(configs);
  std::map<std::string, std::vector<std::string>> values;
  for (std::size_t i = 1; i < compared.size(); ++i) {
    for (const ConfigDifference& difference : compare_configs(compared.front(), compared[i])) {
      auto [found, is_new] = values.try_emplace(difference.key);
      if (is_new) found->second.assign(compared.size(), difference.checkpoint);
      found->second[i] = difference.now;
    }
  }
  std::vector<DifferingKey> keys;
  for (const ConfigKey& key : config_keys()) {
    const auto found = values.find(key.path());
    if (found != values.end()) keys.push_back({.key = found->first, .values = found->second});
  }
  return keys;
}

std::vector<std::string> changed_keys(const Config& config) {
  std::vector<std::string> keys;
  for (const ConfigDifference& difference : compare_configs(Config{}, config)) {
    keys.push_back(difference.key);
  }
  return keys;
}

std::vector<std::vector<std::size_t>> seed_groups(std::span<const Config> configs) {
  std::vector<Config> compared = without_process_settings(configs);
  for (Config& config : compared) config.train.seed = 0;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < compared.size(); ++i) {
    const auto same = [&](std::size_t other) {
      return compare_configs(compared[other], compared[i]).empty();
    };
    const auto group = std::ranges::find_if(groups, same, [](const auto& g) { return g.front(); });
    if (group == groups.end()) {
      groups.push_back({i});
      continue;
    }
    const auto same_seed = [&](std::size_t other) {
      return configs[other].train.seed == configs[i].train.seed;
    };
    if (std::ranges::none_of(*group, same_seed)) group->push_back(i);
  }
  std::erase_if(groups, [](const auto& group) { return group.size() < 2; });
  return groups;
}

}  // namespace tapestry
