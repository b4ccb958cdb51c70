#pragma once

#include <memory>
#include <span>

#include "optim/optimizer.h"
#include "optim/options.h"

namespace tapestry {

/// The optimiser that `options.kind` names. throws ValueError; see validate().
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<const NamedTensor> parameters);

}  // namespace tapestry
