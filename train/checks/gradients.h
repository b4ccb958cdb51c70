// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "autograd/gradcheck/gradcheck.h"
#include "data/batch.h"
#include "layers/model.h"
#include "train/config/config.h"

/// Compares the gradients of a configured model with finite differences, for `tapestry gradcheck`.
namespace tapestry {

/// Adds a random offset in [-0.1, 0.1] to every value. Initial values would hide errors: if all
/// weights of a norm are 1 and all biases are 0, a gradient formula that omits the weights and
/// biases is still correct.
///
/// parameters  float64
void make_uneven(const Parameters& parameters);

/// Checks the gradients of the loss and of the logits in a training step, with respect to all
/// parameters and to the token vectors that encoder and decoder read. Uses dropout and label
/// smoothing as in `config`.
///
/// model  float64; its parameters are unchanged afterwards
/// batch  a few examples
GradcheckReport check_gradients(const Config& config, const Model& model, const Batch& batch,
                                const GradcheckOptions& options);

/// The report as one JSON object: `model`, `rows`, `first_wrong` (null if no operation is wrong),
/// `verdict` (`wrong` if any row is wrong, else `inconclusive` if any row is inconclusive, else
/// `too small` if all rows are, else `agrees`). Non-finite values are written as null, since JSON
/// cannot represent them. Coordinates, inputs and operations count from 0.
std::string to_json(const GradcheckReport& report, const std::string& model);

}  // namespace tapestry
