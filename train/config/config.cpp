// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/instruction_set.h"
#include "autograd/kernels/parallel.h"
#include "train/config/choices.h"
#include "train/config/fields.h"
#include "train/config/kind.h"
#include "train/config/rules.h"

namespace tapestry {
namespace {

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

void apply_kernels(KernelChoice choice, std::string_view saved) {
  if (choice != KernelChoice::automatic) return use_kernels(choice_name(choice));
  if (!is_set("TAPESTRY_KERNELS")) {
    for (const std::string_view name : compiled_kernels()) {
      const bool was_used = saved.starts_with("kernels " + std::string(name) + ",");
      if (was_used && processor_can_execute(name)) return use_kernels(name);
    }
  }
  use_kernels("auto");
}

void apply_matmul(Matmul choice, std::string_view saved) {
  const bool follows_saved = choice == Matmul::automatic && !is_set("TAPESTRY_MATMUL");
  use_matmul(follows_saved && saved.find("matmul OpenBLAS") != saved.npos ? Matmul::openblas
                                                                          : choice);
}

}  // namespace

const CustomValue& Config::custom_value_or_default(std::string_view path) const {
  if (const auto found = custom.find(path); found != custom.end()) return found->second;
  std::vector<std::string> known;
  for (const std::vector<ConfigKind>* kinds : {&data_tasks(), &model_kinds()}) {
    for (const ConfigKind& kind : *kinds) {
      for (const CustomKey& key : kind.custom_keys) {
        if (key.path() == path) return key.initial();
        known.push_back(key.path());
      }
    }
  }
  if (known.empty()) {
    throw std::logic_error(fmt::format("{}: no registered kind has custom keys", path));
  }
  throw std::logic_error(fmt::format("{}: no registered kind has this key, expected one of {}",
                                     path, fmt::join(known, ", ")));
}

Config with_process_settings(Config config, const Config& process) {
  std::map<std::string, FieldValue> settings;
  for (const Field& field : fields_of(process)) {
    if (!field.policy.stored) settings[field.path()] = field.value;
  }
  for_each_field(config, [&](Field& field) {
    const auto setting = settings.find(field.path());
    if (setting != settings.end()) field.value = setting->second;
  });
  return config;
}

void apply_process_settings(const TrainOptions& options, std::string_view saved) {
  kernels::set_num_threads(options.threads);
  apply_kernels(options.kernels, saved);
  apply_matmul(options.matmul, saved);
}

}  // namespace tapestry
