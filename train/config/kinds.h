#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

struct Config;
class ConfigCheck;

/// A value of `data.task` or of `model.kind`, with the keys and rules that come with it.
struct ConfigKind {
  std::string_view name;

  /// Keys that have a meaning with some kinds only, this one among them: "data.num_symbols". A key
  /// that no kind lists is used with all.
  std::vector<std::string_view> keys{};

  /// Reports values that are fine each by itself but contradict one another.
  void (*check)(const Config&, const ConfigCheck&) = [](const Config&, const ConfigCheck&) {};
};

// The three functions are defined by train/tasks/, which a config must not include: tasks are made
// from configs.

/// All values of `data.task`, in the order in which they are listed to the user.
const std::vector<ConfigKind>& data_tasks();

/// All values of `model.kind`.
const std::vector<ConfigKind>& model_kinds();

/// The values of `data.task` that a kind of model can learn.
std::vector<std::string> data_tasks_for(std::string_view model_kind);

}  // namespace tapestry
