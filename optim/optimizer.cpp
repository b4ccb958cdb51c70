#include "optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "autograd/error.h"
#include "autograd/flat_buffer.h"
#include "autograd/gradient.h"
#include "autograd/kernels/reduce.h"
#include "optim/adam.h"
#include "optim/gradient_pieces.h"
#include "optim/sgd.h"

namespace tapestry {
namespace {

void require_leaf(const NamedTensor& parameter) {
  if (parameter.tensor.is_frozen()) return;
  if (!parameter.tensor.requires_gradient()) {
    throw ValueError(
        fmt::format("optimizer: `{}` requires no gradient, expected a parameter: call "
                    "require_gradient() on it first",
                    parameter.name));
  }
  if (parameter.tensor.slot()->origin() != GradientSlot::Origin::leaf) {
    throw ValueError(fmt::format(
        "optimizer: `{}` is the output of an operation, expected a parameter", parameter.name));
  }
}

/// Refuses duplicates: a tensor that occurs twice would be updated twice in each step.
void require_different(std::span<const NamedTensor> parameters) {
  std::set<std::string> names;
  std::map<const void*, std::string> tensors;
  for (const auto& [name, tensor] : parameters) {
    if (!names.insert(name).second) {
      throw ValueError(fmt::format("optimizer: two parameters are named `{}`, expected one", name));
    }
    const auto [same, is_new] = tensors.emplace(tensor.identity(), name);
    if (!is_new) {
      throw ValueError(
          fmt::format("optimizer: `{}` and `{}` are one tensor, expected it once: list tied "
                      "weights under one name",
                      same->second, name));
    }
  }
}

}  // namespace

Optimizer::Optimizer(std::span<const NamedTensor> parameters, double weight_decay,
                     std::span<const ParameterGroup> groups)
    : parameters_(parameters.begin(), parameters.end()), groups_(parameters, weight_decay, groups) {
  if (parameters_.empty()) {
    throw ValueError("optimizer: there are no parameters, expected one or more");
  }
  for (const NamedTensor& parameter : parameters_) require_leaf(parameter);
  require_different(parameters_);
}

void Optimizer::step(double learning_rate, double gradient_scale) {
  if (!(learning_rate >= 0.0 && std::isfinite(learning_rate))) {
    throw ValueError(fmt::format("optimizer: learning_rate is {}, expected a finite number >= 0",
                                 learning_rate));
  }
  if (!std::isfinite(gradient_scale)) {
    throw ValueError(
        fmt::format("optimizer: gradient_scale is {}, expected a finite number; is the norm of the "
                    "gradients finite?",
                    gradient_scale));
  }
  const GradientPieces gradients(parameters_);
  ++steps_;
  update(gradients, learning_rate, gradient_scale);
}

std::vector<NamedTensor> zero_state(const std::string& what,
                                    std::span<const NamedTensor> parameters) {
  const FlatBuffer buffer(parameters);
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : parameters) {
    state.push_back(
        {what + "/" + name, Tensor::over(tensor.shape(), tensor.dtype(), buffer.memory(),
                                         buffer.offset(state.size()))});
  }
  return state;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<const NamedTensor> parameters,
                                          const std::vector<ParameterGroup>& groups) {
  switch (options.kind) {
    case OptimizerKind::sgd:
      return std::make_unique<Sgd>(parameters, options, groups);
    case OptimizerKind::adam:
      return std::make_unique<Adam>(parameters, options, groups);
    case OptimizerKind::adamw:
      return std::make_unique<AdamW>(parameters, options, groups);
  }
  throw ValueError(fmt::format("optimizer: kind is {}, expected sgd, adam or adamw",
                               static_cast<int>(options.kind)));
}

double global_gradient_norm(std::span<const NamedTensor> parameters) {
  const GradientPieces gradients(parameters);
  std::vector<double, kernels::PoolAllocator<double>> squares(gradients.size());
  gradients.for_each([&]<class T>(const GradientPieces::Piece& piece, const T* gradient) {
    squares[piece.index] = kernels::sum_of_squares(piece.size, gradient);
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

double clip_factor(double norm, double max_norm) {
  if (!(max_norm >= 0.0 && std::isfinite(max_norm))) {
    throw ValueError(
        fmt::format("clip_factor: max_norm is {}, expected a finite number >= 0", max_norm));
  }
  return max_norm == 0.0 || norm <= max_norm ? 1.0 : max_norm / norm;
}

}  // namespace tapestry
