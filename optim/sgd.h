// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>
#include <vector>

#include "optim/optimizer.h"

namespace tapestry {

/// Stochastic gradient descent with momentum, as in PyTorch:
///
///     h = g + weight_decay p;   v <- momentum v + h;   p <- p - lr v
///
/// State: `momentum/<parameter name>`, v; none if momentum is 0, since then v = h.
class Sgd : public Optimizer {
 public:
  /// Uses `momentum` and `weight_decay` of the options.
  ///
  /// ranges  see make_optimizer()
  /// throws  ValueError; see validate() and GroupedParameters.
  explicit Sgd(std::span<const NamedTensor> parameters, const OptimizerOptions& options = {},
               const std::vector<ParameterGroup>& groups = {},
               std::span<const ElementRange> ranges = {});

  std::vector<NamedTensor> state() const override { return velocities_; }

 private:
  void update(const GradientPieces& gradients, double learning_rate,
              double gradient_scale) override;

  OptimizerOptions options_;
  std::vector<NamedTensor> velocities_;
};

}  // namespace tapestry
