// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "optim/optimizer.h"

namespace tapestry {

/// Adam [1]. In step t = 1, 2, ...
///
///     h = g + weight_decay p
///     m <- beta1 m + (1 - beta1) h;     v <- beta2 v + (1 - beta2) h^2
///     p <- p - lr m^ / (sqrt(v^) + epsilon),  m^ = m / (1 - beta1^t),  v^ = v / (1 - beta2^t)
///
/// t counts all steps of the optimizer, even if a parameter had no gradient.
///
/// State: `first_moment/<parameter name>`, m, for all parameters, then `second_moment/<...>`, v.
///
/// [1] Kingma & Ba 2015, algorithm 1.
class Adam : public Optimizer {
 public:
  /// Uses `beta1`, `beta2`, `epsilon` and `weight_decay` of the options.
  ///
  /// ranges  see make_optimizer()
  /// throws  ValueError; see validate() and GroupedParameters. Also if epsilon rounds to 0 in the
  ///         element type of a parameter, since a gradient of 0 would then give NaN.
  explicit Adam(std::span<const NamedTensor> parameters, const OptimizerOptions& options = {},
                const std::vector<ParameterGroup>& groups = {},
                std::span<const ElementRange> ranges = {})
      : Adam(parameters, options, groups, ranges, WeightDecay::coupled) {}

  std::vector<NamedTensor> state() const override;

 protected:
  /// How weight decay enters the update.
  enum class WeightDecay {
    coupled,   ///< added to the gradient: L2 regularization
    decoupled  ///< subtracted from the parameter: AdamW
  };
  /// Chooses how weight decay is applied. The arguments and errors are as above.
  Adam(std::span<const NamedTensor> parameters, const OptimizerOptions& options,
       const std::vector<ParameterGroup>& groups, std::span<const ElementRange> ranges,
       WeightDecay weight_decay);

 private:
  void update(const GradientPieces& gradients, double learning_rate,
              double gradient_scale) override;

  OptimizerOptions options_;
  WeightDecay weight_decay_;
  std::vector<NamedTensor> first_moments_;
  std::vector<NamedTensor> second_moments_;
};

/// Adam with decoupled weight decay [1]: h = g, and p <- p - lr weight_decay p in addition to the
/// Adam update, for parameters with at least two axes. Biases and the parameters of norms, which
/// have one axis, do not decay.
///
/// [1] Loshchilov & Hutter 2019, algorithm 2, with lr in place of eta_t.
class AdamW : public Adam {
 public:
  /// The weight decay of a group also applies only to parameters with at least two axes.
  explicit AdamW(std::span<const NamedTensor> parameters, const OptimizerOptions& options = {},
                 const std::vector<ParameterGroup>& groups = {},
                 std::span<const ElementRange> ranges = {})
      : Adam(parameters, options, groups, ranges, WeightDecay::decoupled) {}
};

}  // namespace tapestry
