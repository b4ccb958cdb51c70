// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "train/base/error.h"
#include "train/config/config.h"
#include "train/config/keys.h"
#include "train/config/rules.h"
#include "train/tasks/task.h"

namespace tapestry {

// Each function is defined in tasks/NAME.cpp.
const Task& translation();
const Task& language_modelling();
const Task& masked_language_modelling();
const Task& sentence_classification();
const Task& image_classification();
const Task& sequence_tagging();

namespace {

/// The tasks, and their values of model.kind and data.task.
struct Registry {
  std::vector<const Task*> tasks;
  std::vector<ConfigKind> model_kinds, data_tasks;
  std::size_t built_in = 0;  ///< number of tasks of this library, which precede custom tasks

  void add(const Task& task) {
    tasks.push_back(&task);
    model_kinds.push_back(task.kind());
    for (const DataSource* source : task.sources()) {
      const bool known =
          std::ranges::find(data_tasks, source->kind.name, &ConfigKind::name) != data_tasks.end();
      if (!known) data_tasks.push_back(source->kind);
    }
  }
};

Registry& registry() {
  static Registry all = [] {
    Registry built_in;
    for (const Task* task :
         {&translation(), &language_modelling(), &masked_language_modelling(),
          &sentence_classification(), &image_classification(), &sequence_tagging()}) {
      built_in.add(*task);
    }
    built_in.built_in = built_in.tasks.size();
    return built_in;
  }();
  return all;
}

std::set<std::string> known_paths() {
  std::set<std::string> paths;
  for (const ConfigKey& key : config_keys()) paths.insert(key.section + "." + key.key);
  return paths;
}

/// throws  CustomModelError if a key of the kind already exists or is invalid.
void require_new_keys(const ConfigKind& kind, std::set<std::string>& paths) {
  for (const CustomKey& key : kind.custom_keys) {
    const std::string mistake = key.definition_error();
    if (!mistake.empty()) {
      throw CustomModelError(
          fmt::format("custom model {}: key {}: {}", kind.name, key.path(), mistake),
          "correct the definition of the key");
    }
    if (!paths.insert(key.path()).second) {
      throw CustomModelError(
          fmt::format("custom model {}: key {}: already exists", kind.name, key.path()),
          "choose another name");
    }
  }
}

}  // namespace

const std::vector<const Task*>& all_tasks() { return registry().tasks; }
const std::vector<ConfigKind>& model_kinds() { return registry().model_kinds; }
const std::vector<ConfigKind>& data_tasks() { return registry().data_tasks; }

void register_task(const Task& task) {
  const auto has_name = [&](const ConfigKind& kind) { return kind.name == task.kind().name; };
  if (std::ranges::any_of(model_kinds(), has_name)) {
    throw CustomModelError(
        fmt::format("custom model {}: a model.kind with this name already exists",
                    task.kind().name),
        "choose another kind");
  }
  std::set<std::string> paths = known_paths();
  require_new_keys(task.kind(), paths);
  for (const DataSource* source : task.sources()) {
    const auto is_same = [&](const ConfigKind& kind) { return kind.name == source->kind.name; };
    if (std::ranges::none_of(data_tasks(), is_same)) require_new_keys(source->kind, paths);
  }
  registry().add(task);
}

std::vector<std::string> custom_kinds() {
  std::vector<std::string> kinds;
  const std::vector<const Task*>& tasks = registry().tasks;
  for (std::size_t i = registry().built_in; i < tasks.size(); ++i) {
    kinds.emplace_back(tasks[i]->kind().name);
  }
  return kinds;
}

std::vector<std::string> data_tasks_for(std::string_view model_kind) {
  std::vector<std::string> names;
  for (const Task* task : all_tasks()) {
    if (task->kind().name != model_kind) continue;
    for (const DataSource* source : task->sources()) names.emplace_back(source->kind.name);
  }
  return names;
}

}  // namespace tapestry
