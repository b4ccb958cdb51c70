// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/kind.h"
#include "train/config/reader.h"

/// Rules for the values of several keys. A config is completed in this order: epochs
/// become steps as soon as the data are known, percentages of steps become numbers, and then the
/// rules hold. Rules about steps are not applied while `train.epochs` gives the length of the run.
namespace tapestry {

// The three functions are defined in train/tasks/. A config must not include tasks, which are
// created from configs.

/// All values of `data.task`, in the order of messages.
const std::vector<ConfigKind>& data_tasks();

/// All values of `model.kind`.
const std::vector<ConfigKind>& model_kinds();

/// The values of `data.task` that a kind of model supports.
std::vector<std::string> data_tasks_for(std::string_view model_kind);

/// Reports values that are valid individually but contradict each other, and keys that the chosen
/// task, optimizer or schedule does not use.
void check_rules(const Config& config, const Origins& origins, Diagnostics& errors);

}  // namespace tapestry
