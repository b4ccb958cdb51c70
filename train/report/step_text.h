#pragma once

#include <cstddef>
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

/// The text for an operation with this name, without keys. An operation of another library gets its
/// name as the title, and no formula.
StepText operation_text(std::string_view operation);

/// The text for an operation in the layer with this path, in a model of this library.
StepText step_text(std::string_view operation, std::string_view layer, const Config& config);

/// The same in a model of another program: nothing but the operation is known, since a layer may
/// compute anything. The keys are those of the layers of this library with the same name; the model
/// may have none of them.
StepText custom_step_text(std::string_view operation, std::string_view layer);

/// Adds the scale of the vectors to the formulas of an embedding.
///
/// width  of a vector; the square root of it is called √d_model
void add_scale(StepText& embedding, double scale, std::size_t width);

/// Sets the formulas of a cross entropy with label smoothing or with a normalizer.
void set_own_cross_entropy(StepText& loss);

/// What each score of attention is before scaling, in a model of this library: "S = Q Kᵀ".
std::string score_formula(const Config& config);
/// The same for an operation of attention in any model.
std::string score_formula(std::string_view operation);

}  // namespace tapestry
