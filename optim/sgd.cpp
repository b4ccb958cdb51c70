#include "optim/sgd.h"

#include "optim/sgd_kernel.h"
#include "optim/state.h"

namespace tapestry {

Sgd::Sgd(std::span<const NamedTensor> parameters, const OptimizerOptions& options)
    : Optimizer(parameters), options_(options) {
  validate(options);
  if (options.momentum != 0.0) velocities_ = zero_state("momentum", parameters);
}

void Sgd::update(const GradientPieces& gradients, double learning_rate, double gradient_scale) {
  const kernels::SgdNumbers numbers{.learning_rate = learning_rate,
                                    .gradient_scale = gradient_scale,
                                    .weight_decay = options_.weight_decay,
                                    .momentum = options_.momentum};
  gradients.for_each([&]<class T>(const GradientPieces::Piece& piece, const T* g) {
    T* const p = part<T>(parameters()[piece.parameter].tensor, piece);
    if (velocities_.empty()) {
      kernels::sgd_update(piece.size, numbers, g, p);
    } else {
      T* const v = part<T>(velocities_[piece.parameter].tensor, piece);
      kernels::sgd_momentum_update(piece.size, numbers, g, p, v);
    }
  });
}

}  // namespace tapestry
