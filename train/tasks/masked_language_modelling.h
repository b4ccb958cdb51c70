#pragma once

#include "train/tasks/task.h"

namespace tapestry {

/// model.kind: masked_language_model. Masked tokens of a text given those on both sides (Devlin et
/// al. 2019, "BERT"), with an encoder; `tapestry fill` predicts the blanks of a line.
const Task& masked_language_modelling();

}  // namespace tapestry
