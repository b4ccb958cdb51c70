#include <algorithm>

#include "train/config/kinds.h"
#include "train/tasks/image_classification.h"
#include "train/tasks/language_modelling.h"
#include "train/tasks/masked_language_modelling.h"
#include "train/tasks/sentence_classification.h"
#include "train/tasks/sequence_tagging.h"
#include "train/tasks/task.h"
#include "train/tasks/translation.h"

namespace tapestry {

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
