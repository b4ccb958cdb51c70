#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"

namespace tapestry {

/// What a step of a computation is, in the words of the page of `tapestry explain`.
struct StepText {
  std::string title;               ///< "Feed-forward: first linear map"
  std::string formula;             ///< "y = x Wᵀ + b"
  std::string gradient;            ///< the gradients of its inputs, from dL/dy
  std::vector<std::string> keys;   ///< the config keys that determine it, "model.d_ff"
  std::vector<std::string> files;  ///< the source files that compute it
};

/// The text for an operation with this name in the layer with this path. An operation of another
/// library gets its name as the title, and no formula.
StepText step_text(std::string_view operation, std::string_view layer, const Config& config);

/// What each score of attention is before scaling: "s = Q Kᵀ".
std::string score_formula(const Config& config);

}  // namespace tapestry
