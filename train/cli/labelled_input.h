// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include "data/batch.h"
#include "train/tasks/task.h"

/// The labels of the loss that `tapestry explain` shows.
namespace tapestry::explain_cli {

/// A model whose forward and backward pass is shown.
struct Subject {
  TrainedModel trained;
  std::string origin;
  bool is_trained;
};

/// The input as a batch, with the labels of its loss.
struct LabelledInput {
  Batch batch;
  std::string labels;  ///< where the labels come from
};

/// The input with labels from `target`, the value of --target. Without `target`, the labels come
/// from the text or from the predictions of the model, depending on the task.
///
/// throws  ConfigError if the target does not fit the task or the input.
LabelledInput labelled_input(const Subject& subject, const Task& task, const Example& example,
                             const std::optional<std::string>& target);

}  // namespace tapestry::explain_cli
