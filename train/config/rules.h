// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/kind.h"
#include "train/config/reader.h"

/// Rules about combinations of values of several keys. Rules about steps do not apply while
/// `train.epochs` sets the length of the run; resolve_epochs() checks them after the data have been
/// loaded.
namespace tapestry {

// The next three functions are defined in train/tasks/, since train/config/ must not depend on
// tasks.

/// All values of `data.task`, in the order in which messages list them.
const std::vector<ConfigKind>& data_tasks();

/// All values of `model.kind`.
const std::vector<ConfigKind>& model_kinds();

/// The values of `data.task` that a kind of model supports.
std::vector<std::string> data_tasks_for(std::string_view model_kind);

/// Adds an error to `errors` for each contradiction between valid values, and for each key that the
/// chosen task, optimizer or schedule does not use.
///
/// files_required  false to accept a task whose data files are not named
void check_rules(const Config& config, const Origins& origins, Diagnostics& errors,
                 bool files_required = true);

}  // namespace tapestry
