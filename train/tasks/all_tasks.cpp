#include <algorithm>

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

const std::vector<const Task*>& all_tasks() {
  static const std::vector<const Task*> tasks{&translation(),
                                              &language_modelling(),
                                              &masked_language_modelling(),
                                              &sentence_classification(),
                                              &image_classification(),
                                              &sequence_tagging()};
  return tasks;
}

const std::vector<ConfigKind>& model_kinds() {
  static const std::vector<ConfigKind> kinds = [] {
    std::vector<ConfigKind> all;
    for (const Task* task : all_tasks()) all.push_back(task->kind());
    return all;
  }();
  return kinds;
}

const std::vector<ConfigKind>& data_tasks() {
  static const std::vector<ConfigKind> kinds = [] {
    std::vector<ConfigKind> all;
    for (const Task* task : all_tasks()) {
      for (const DataSource* source : task->sources()) {
        const bool known =
            std::ranges::find(all, source->kind.name, &ConfigKind::name) != all.end();
        if (!known) all.push_back(source->kind);
      }
    }
    return all;
  }();
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
