#include "optim/sgd.h"

#include "optim/vector_update.h"

// Products are rounded before they are added, so that every element is rounded alike; see simd.h.
namespace tapestry {

namespace kernels {
namespace {

/// Coefficients of one step; h = gradient_scale * g + weight_decay * p is the gradient with decay.
struct SgdCoefficients {
  double learning_rate;
  double gradient_scale;
  double weight_decay;
  double momentum;
};

template <class T>
struct DecayedGradient {
  explicit DecayedGradient(const SgdCoefficients& c)
      : scale(static_cast<T>(c.gradient_scale)), decay(static_cast<T>(c.weight_decay)) {}

  Vec<T> operator()(const T* g, const Vec<T>& p) const {
    return rounded(scale * load(g)) + rounded(decay * p);
  }

  Vec<T> scale, decay;
};

/// p <- p - lr h, for n elements; `momentum` is not used.
template <class T>
void sgd_update(std::size_t n, const SgdCoefficients& c, const T* g, T* p) {
  const DecayedGradient<T> decayed_gradient(c);
  const Vec<T> learning_rate(static_cast<T>(c.learning_rate));
  const auto update = [&](const T* gradient, T* value) {
    const Vec<T> old = load(value);
    const Vec<T> change = learning_rate * decayed_gradient(gradient, old);
    Vec<T>(old - rounded(change)).store_unaligned(value);
  };
  update_vectors(n, update, g, p);
}

/// v <- momentum v + h, then p <- p - lr v, for n elements. Subnormal values of v become 0.
template <class T>
void sgd_momentum_update(std::size_t n, const SgdCoefficients& c, const T* g, T* p, T* v) {
  const DecayedGradient<T> decayed_gradient(c);
  const Vec<T> learning_rate(static_cast<T>(c.learning_rate));
  const Vec<T> momentum(static_cast<T>(c.momentum));
  const auto update = [&](const T* gradient, T* value, T* velocity) {
    const Vec<T> old = load(value);
    const Vec<T> kept = momentum * load(velocity);
    const Vec<T> speed = rounded(kept) + decayed_gradient(gradient, old);
    const Vec<T> change = learning_rate * speed;
    without_subnormals(speed).store_unaligned(velocity);
    Vec<T>(old - rounded(change)).store_unaligned(value);
  };
  update_vectors(n, update, g, p, v);
}

}  // namespace
}  // namespace kernels

Sgd::Sgd(std::span<const NamedTensor> parameters, const OptimizerOptions& options,
         const std::vector<ParameterGroup>& groups)
    : Optimizer(parameters, options.weight_decay, groups), options_(options) {
  validate(options);
  if (options.momentum != 0.0) velocities_ = zero_state("momentum", parameters);
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
      T* const v = part<T>(velocities_[piece.parameter].tensor, piece);
      kernels::sgd_momentum_update(piece.size, coefficients, g, p, v);
    }
  });
}

}  // namespace tapestry
