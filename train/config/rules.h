#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/reader.h"

namespace tapestry {

/// Where rules report what they find.
class ConfigCheck {
 public:
  using Keys = std::initializer_list<std::string_view>;

  ConfigCheck(const Origins& origins, ProblemList& problems)
      : origins_(origins), problems_(problems) {}

  /// Reports a contradiction between `keys` at the first of them that was given, unless the value
  /// of one of them is bad: then it is not known what the user wants.
  void refuse(Keys keys, std::string message, std::string hint) const;

 private:
  const Origins& origins_;
  ProblemList& problems_;
};

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

/// Reports values that are fine each by itself but contradict one another, and values of keys that
/// the chosen task, optimiser or schedule does not use.
void check_rules(const Config& config, const Origins& origins, ProblemList& problems);

}  // namespace tapestry
