// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "autograd/gradcheck/gradcheck.h"
#include "data/batch.h"
#include "layers/model.h"
#include "train/config/config.h"

/// The gradients of a configured model, compared with finite differences: `tapestry gradcheck`.
namespace tapestry {

/// Adds a random offset of at most 0.1 to every value. Initial values would hide errors: where all
/// weights of a norm are 1 and all biases 0, a gradient that omits them is still correct.
///
/// parameters  float64
void make_uneven(const Parameters& parameters);

/// Checks the gradients of the loss and of the logits of a training step, with dropout and label
/// smoothing as in `config`: of all parameters, and of the token vectors that encoder and decoder
/// read.
///
/// model  float64; its parameters are unchanged afterwards
/// batch  a few examples
GradcheckReport check_gradients(const Config& config, const Model& model, const Batch& batch,
                                const GradcheckOptions& options);

/// The report as one JSON object: `model`, `rows`, `first_wrong` (null if no operation is wrong),
/// `verdict` (`wrong` if any row is wrong, else `inconclusive` if any row is inconclusive, else
/// `too small` if all rows are, else `agrees`). Non-finite values are null, since JSON
/// cannot represent them. Coordinates, inputs and operations count from 0.
std::string to_json(const GradcheckReport& report, const std::string& model);

}  // namespace tapestry
