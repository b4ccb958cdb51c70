// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "data/batch.h"
#include "layers/model.h"

namespace tapestry {

/// The hint for outputs that are NaN or infinite.
inline constexpr const char* non_finite_output_hint =
    "use an earlier checkpoint, or train with a smaller schedule.learning_rate";

/// Rejects outputs of a network that are NaN or infinite. Repeats the forward pass to name the
/// first layer and operation with such an output.
///
/// place   of the input, such as "standard input:3"
/// throws  NumericError
[[noreturn]] void reject_non_finite(const Network& network, const NetworkInput& input,
                                    const std::string& place,
                                    const std::string& hint = non_finite_output_hint);
[[noreturn]] void reject_non_finite(const Model& model, const Batch& batch,
                                    const std::string& place,
                                    const std::string& hint = non_finite_output_hint);

}  // namespace tapestry
