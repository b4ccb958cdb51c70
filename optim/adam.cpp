// SPDX-License-Identifier: BSD-3-Clause
#include "optim/adam.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/kernels/optimizer_update.h"
#include "autograd/kernels/portable_math.h"
#include "optim/gradient_pieces.h"
#include "optim/optimizer.h"

namespace tapestry {

namespace {

void require_usable_epsilon(double epsilon, std::span<const NamedTensor> parameters) {
  if (static_cast<float>(epsilon) > 0.0F) return;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.dtype() == DType::float64) continue;
    throw ValueError(
        fmt::format("optimizer: epsilon is {}, which is 0 in float32, the type of `{}`; expected "
                    "1e-45 or more",
                    epsilon, name));
  }
}

}  // namespace

Adam::Adam(std::span<const NamedTensor> parameters, const OptimizerOptions& options,
           const std::vector<ParameterGroup>& groups, std::span<const ElementRange> ranges,
           WeightDecay weight_decay)
    : Optimizer(parameters, options.weight_decay, groups, ranges),
      options_(options),
      weight_decay_(weight_decay) {
  validate(options);
  require_usable_epsilon(options.epsilon, parameters);
  first_moments_ = zero_state("first_moment", parameters, this->ranges());
  second_moments_ = zero_state("second_moment", parameters, this->ranges());
}

std::vector<NamedTensor> Adam::state() const {
  std::vector<NamedTensor> all = first_moments_;
  all.insert(all.end(), second_moments_.begin(), second_moments_.end());
  return all;
}

void Adam::update(const GradientPieces& gradients, double learning_rate, double gradient_scale) {
  const auto t = static_cast<double>(steps());
  const bool coupled = weight_decay_ == WeightDecay::coupled;
  const auto coefficients = [&](double rate, double weight_decay) -> kernels::AdamCoefficients {
    return {.gradient_scale = gradient_scale,
            .coupled_decay = coupled ? weight_decay : 0.0,
            .beta1 = options_.beta1,
            .beta2 = options_.beta2,
            .step_size = rate / (1.0 - portable::pow(options_.beta1, t)),
            .root_scale = 1.0 / std::sqrt(1.0 - portable::pow(options_.beta2, t)),
            .epsilon = options_.epsilon,
            .decoupled_decay = coupled ? 0.0 : rate * weight_decay};
  };
  const auto for_matrices = groups().map([&](const GroupedParameters::Group& group) {
    return coefficients(group.learning_rate_factor * learning_rate, group.weight_decay);
  });
  auto for_vectors = for_matrices;
  for (kernels::AdamCoefficients& c : for_vectors) c.decoupled_decay = 0.0;
  gradients.for_each([&]<class T>(const GradientPieces::Piece& piece, const T* g) {
    const std::size_t i = piece.parameter;
    const Tensor& parameter = parameters()[i].tensor;
    const auto& by_group = parameter.rank() >= 2 ? for_matrices : for_vectors;
    kernels::adam_update(piece.size, by_group[groups().group_index(i)], g,
                         part<T>(parameter, piece), state_part<T>(first_moments_[i].tensor, piece),
                         state_part<T>(second_moments_[i].tensor, piece));
  });
}

namespace {

std::vector<OptimizerState> moments(const OptimizerOptions&) {
  return {{.name = "first_moment"}, {.name = "second_moment", .mean_of_squares = true}};
}

}  // namespace

const OptimizerDescription& describe_adam() {
  static const OptimizerDescription description{.options = {"beta1", "beta2", "epsilon"},
                                                .state = moments,
                                                .make = make_optimizer_of_class<Adam>};
  return description;
}

const OptimizerDescription& describe_adamw() {
  static const OptimizerDescription description{.options = {"beta1", "beta2", "epsilon"},
                                                .state = moments,
                                                .make = make_optimizer_of_class<AdamW>};
  return description;
}

}  // namespace tapestry
