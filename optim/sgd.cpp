// SPDX-License-Identifier: BSD-3-Clause
#include "optim/sgd.h"

#include "autograd/kernels/optimizer_update.h"
#include "optim/gradient_pieces.h"
#include "optim/optimizer.h"

namespace tapestry {

Sgd::Sgd(std::span<const NamedTensor> parameters, const OptimizerOptions& options,
         const std::vector<ParameterGroup>& groups, std::span<const ElementRange> ranges)
    : Optimizer(parameters, options.weight_decay, groups, ranges), options_(options) {
  validate(options);
  if (options.momentum != 0.0) velocities_ = zero_state("momentum", parameters, this->ranges());
}

void Sgd::update(const GradientPieces& gradients, double learning_rate, double gradient_scale) {
  const auto by_group = groups().map([&](const GroupedParameters::Group& group) {
    return kernels::SgdCoefficients{.learning_rate = group.learning_rate_factor * learning_rate,
                                    .gradient_scale = gradient_scale,
                                    .weight_decay = group.weight_decay,
                                    .momentum = options_.momentum};
  });
  gradients.for_each([&]<class T>(const GradientPieces::Piece& piece, const T* g) {
    const kernels::SgdCoefficients& coefficients = by_group[groups().group_index(piece.parameter)];
    T* const p = part<T>(parameters()[piece.parameter].tensor, piece);
    if (velocities_.empty()) {
      kernels::sgd_update(piece.size, coefficients, g, p);
    } else {
      T* const v = state_part<T>(velocities_[piece.parameter].tensor, piece);
      kernels::sgd_momentum_update(piece.size, coefficients, g, p, v);
    }
  });
}

const OptimizerDescription& describe_sgd() {
  static const OptimizerDescription description{
      .options = {"momentum"},
      .state = [](const OptimizerOptions& options) -> std::vector<OptimizerState> {
        if (options.momentum == 0.0) return {};
        return {{.name = "momentum"}};
      },
      .make = make_optimizer_of_class<Sgd>};
  return description;
}

}  // namespace tapestry
