#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace tapestry {

/// A config key in which runs differ.
struct DifferingKey {
  std::string key;                  ///< "model.d_model"
  std::vector<std::string> values;  ///< of each run, as YAML
};

/// The keys in which configs differ, in file order. Settings of a process, such as train.threads
/// and train.run_dir, are not compared.
std::vector<DifferingKey> differing_keys(std::span<const Config> configs);

/// The keys of a config whose values are not the defaults, in file order.
std::vector<std::string> changed_keys(const Config& config);

/// The indices of configs that differ in train.seed only, in groups of two or more with different
/// seeds; in order of their first indices.
std::vector<std::vector<std::size_t>> seed_groups(std::span<const Config> configs);

}  // namespace tapestry
