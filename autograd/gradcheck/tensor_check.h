#pragma once

#include <span>
#include <vector>

#include "autograd/gradcheck.h"
#include "autograd/gradcheck/objectives.h"

namespace tapestry::gradcheck_detail {

/// Checks every tensor against every objective: a row for each pair, objective by objective.
std::vector<GradcheckRow> check(const Objectives& objectives, std::span<const NamedTensor> tensors,
                                const GradcheckOptions& options);

}  // namespace tapestry::gradcheck_detail
