#pragma once

#include <nlohmann/json.hpp>

#include "train/models/model_summary.h"

namespace tapestry {

/// The blocks of a model with the shapes of their tensors, and the totals, as `inspect --json` and
/// `plan --json` print them.
nlohmann::ordered_json to_json(const ModelSummary& summary);

}  // namespace tapestry
