#include "optim/adam.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"
#include "optim/vector_update.h"

namespace tapestry {

namespace kernels {

// Products are rounded before they are added, so that every element is rounded alike; see simd.h.
template <class T>
void adam_update(std::size_t n, const AdamCoefficients& c, const T* g, T* p, T* m, T* v) {
  const auto all = [](double number) { return Vec<T>(static_cast<T>(number)); };
  const Vec<T> scale = all(c.gradient_scale);
  const Vec<T> coupled_decay = all(c.coupled_decay);
  const Vec<T> beta1 = all(c.beta1), rest1 = all(1.0 - c.beta1);
  const Vec<T> beta2 = all(c.beta2), rest2 = all(1.0 - c.beta2);
  const Vec<T> step_size = all(c.step_size), root_scale = all(c.root_scale);
  const Vec<T> epsilon = all(c.epsilon);
  const Vec<T> decoupled_decay = all(c.decoupled_decay);

  const auto update = [&](const T* gradient, T* value, T* first, T* second) {
    const Vec<T> old = load(value);
    const Vec<T> h = rounded(scale * load(gradient)) + rounded(coupled_decay * old);
    const Vec<T> mean = rounded(beta1 * load(first)) + rounded(rest1 * h);
    const Vec<T> square = rounded(beta2 * load(second)) + rounded(rest2 * h * h);
    const Vec<T> root = rounded(root_scale * xsimd::sqrt(square)) + epsilon;
    const Vec<T> change = step_size * mean / root + rounded(decoupled_decay * old);
    without_subnormals(mean).store_unaligned(first);
    without_subnormals(square).store_unaligned(second);
    Vec<T>(old - change).store_unaligned(value);
  };
  update_vectors(n, update, g, p, m, v);
}

template void adam_update(std::size_t, const AdamCoefficients&, const float*, float*, float*,
                          float*);
template void adam_update(std::size_t, const AdamCoefficients&, const double*, double*, double*,
                          double*);

}  // namespace kernels

namespace {

void require_usable_epsilon(double epsilon, std::span<const NamedTensor> parameters) {
  if (static_cast<float>(epsilon) > 0.0F) return;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.dtype() == DType::float64) continue;
    throw ValueError(
        fmt::format("optimizer: epsilon is {}, which is 0 in float32, as `{}` is; expected 1e-45 "
                    "or more",
                    epsilon, name));
  }
}

}  // namespace

Adam::Adam(std::span<const NamedTensor> parameters, const OptimizerOptions& options,
           const std::vector<ParameterGroup>& groups, WeightDecay weight_decay)
    : Optimizer(parameters, options.weight_decay, groups),
      options_(options),
      weight_decay_(weight_decay) {
  validate(options);
  require_usable_epsilon(options.epsilon, parameters);
  first_moments_ = zero_state("first_moment", parameters);
  second_moments_ = zero_state("second_moment", parameters);
}

std::vector<NamedTensor> Adam::state() const {
  std::vector<NamedTensor> all = first_moments_;
  all.insert(all.end(), second_moments_.begin(), second_moments_.end());
  return all;
}

kernels::AdamCoefficients Adam::coefficients(double learning_rate, double weight_decay,
                                             double gradient_scale) const {
  const auto t = static_cast<double>(steps());
  const bool coupled = weight_decay_ == WeightDecay::coupled;
  return {.gradient_scale = gradient_scale,
          .coupled_decay = coupled ? weight_decay : 0.0,
          .beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .step_size = learning_rate / (1.0 - std::pow(options_.beta1, t)),
          .root_scale = 1.0 / std::sqrt(1.0 - std::pow(options_.beta2, t)),
          .epsilon = options_.epsilon,
          .decoupled_decay = coupled ? 0.0 : learning_rate * weight_decay};
}

void Adam::update(const GradientPieces& gradients, double learning_rate, double gradient_scale) {
  const auto of_matrices = groups().map([&](const GroupedParameters::Group& group) {
    return coefficients(group.learning_rate_factor * learning_rate, group.weight_decay,
                        gradient_scale);
  });
  auto of_vectors = of_matrices;
  for (kernels::AdamCoefficients& c : of_vectors) c.decoupled_decay = 0.0;
  gradients.for_each([&]<class T>(const GradientPieces::Piece& piece, const T* g) {
    const std::size_t i = piece.parameter;
    const Tensor& parameter = parameters()[i].tensor;
    const auto& by_group = parameter.rank() >= 2 ? of_matrices : of_vectors;
    kernels::adam_update(piece.size, by_group[groups().group_index(i)], g,
                         part<T>(parameter, piece), part<T>(first_moments_[i].tensor, piece),
                         part<T>(second_moments_[i].tensor, piece));
  });
}

}  // namespace tapestry
