// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/custom_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "train/base/error.h"
#include "train/config/keys.h"
#include "train/tasks/checked_network.h"

namespace tapestry {
namespace {

[[noreturn]] void reject(const CustomModelOptions& options, const std::string& mistake,
                         const std::string& hint) {
  throw CustomModelError(
      fmt::format("custom model {}: {}", options.kind.empty() ? "without a name" : options.kind,
                  mistake),
      hint);
}

const Task& require_task(const CustomModelOptions& options) {
  if (options.kind.empty()) {
    reject(options, "kind is empty, expected a value of model.kind",
           "set CustomModelOptions::kind");
  }
  if (!options.make_network) {
    reject(options, "make_network is empty, expected a function",
           "set CustomModelOptions::make_network");
  }
  std::vector<std::string> kinds;
  for (const Task* task : all_tasks()) {
    kinds.emplace_back(task->kind().name);
    if (kinds.back() == options.like) return *task;
  }
  reject(options, fmt::format("like is \"{}\", expected an existing kind", options.like),
         fmt::format("set CustomModelOptions::like to one of {}", fmt::join(kinds, ", ")));
}

/// Checks that each key is in the model section, and adds the keys that every model uses.
std::vector<std::string> all_model_keys(const CustomModelOptions& options) {
  const std::vector<ConfigKey> known = config_keys();
  for (const std::string& path : *options.model_keys) {
    if (path.starts_with("model.") &&
        std::ranges::find(known, path, &ConfigKey::path) != known.end()) {
      continue;
    }
    reject(options, fmt::format("model_keys has {}, expected keys such as model.d_model", path),
           "list keys of the model section that exist in every config");
  }
  std::vector<std::string> keys = *options.model_keys;
  for (const char* path : {"model.kind", "model.max_length"}) keys.emplace_back(path);
  return keys;
}

}  // namespace

CustomModel::CustomModel(CustomModelOptions options)
    : options_(std::move(options)), like_(require_task(options_)), kind_(like_.kind()) {
  kind_.name = options_.kind;
  kind_.custom_keys = options_.custom_keys;
  if (options_.model_keys) kind_.model_keys = all_model_keys(options_);
  if (options_.check) {
    kind_.check = [this](const Config& config, const ConfigCheck& check) {
      call_custom_code(options_.kind, "check", [&] { options_.check(config, check); });
    };
  }
}

std::unique_ptr<Network> CustomModel::make_network(const Scope& scope, const Config& config,
                                                   const NetworkSizes& sizes) const {
  return options_.make_network(scope, config, sizes);
}

}  // namespace tapestry
