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
#include "optim/gradient_pieces.h"
#include "optim/optimizer_description.h"

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

std::vector<ElementRange> element_ranges(std::span<const NamedTensor> parameters,
                                         std::span<const ElementRange> ranges) {
  if (ranges.empty()) {
    std::vector<ElementRange> all;
    for (const NamedTensor& each : parameters) all.push_back({0, each.tensor.size()});
    return all;
  }
  if (ranges.size() != parameters.size()) {
    throw ValueError(
        fmt::format("optimizer: found {} ranges of elements, expected {}, one for each parameter",
                    ranges.size(), parameters.size()));
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].begin <= ranges[i].end && ranges[i].end <= parameters[i].tensor.size()) continue;
    throw ValueError(fmt::format(
        "optimizer: the range of `{}` is {} to {}, expected a part of 0 "
        "to {}",
        parameters[i].name, ranges[i].begin, ranges[i].end, parameters[i].tensor.size()));
  }
  return {ranges.begin(), ranges.end()};
}

Optimizer::Optimizer(std::span<const NamedTensor> parameters, double weight_decay,
                     std::span<const ParameterGroup> groups, std::span<const ElementRange> ranges)
    : parameters_(parameters.begin(), parameters.end()),
      groups_(parameters, weight_decay, groups),
      ranges_(element_ranges(parameters, ranges)) {
  if (parameters_.empty()) {
    throw ValueError("optimizer: there are no parameters, expected one or more");
  }
  for (const NamedTensor& parameter : parameters_) require_leaf(parameter);
  require_different(parameters_);
}

void Optimizer::step(double learning_rate, double gradient_scale) {
  if (!(learning_rate >= 0.0 && std::isfinite(learning_rate))) {
    throw ValueError(fmt::format("optimizer: learning_rate is {}, expected a finite number >= 0",
                                 printable(learning_rate)));
  }
  if (!std::isfinite(gradient_scale)) {
    throw ValueError(
        fmt::format("optimizer: gradient_scale is {}, expected a finite number; is the norm of the "
                    "gradients finite?",
                    printable(gradient_scale)));
  }
  const GradientPieces gradients(parameters_, ranges_);
  ++steps_;
  update(gradients, learning_rate, gradient_scale);
}

std::vector<NamedTensor> zero_state(const std::string& what,
                                    std::span<const NamedTensor> parameters,
                                    std::span<const ElementRange> ranges) {
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : parameters) {
    const std::size_t size = ranges[state.size()].size();
    const Shape shape = size == tensor.size() ? tensor.shape() : Shape{size};
    state.push_back({what + "/" + name, Tensor::over(shape, tensor.dtype(), kernels::Memory(), 0)});
  }
  const FlatBuffer buffer(state);
  for (std::size_t i = 0; i < state.size(); ++i) {
    Tensor& tensor = state[i].tensor;
    tensor = Tensor::over(tensor.shape(), tensor.dtype(), buffer.memory(), buffer.offset(i));
  }
  return state;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::span<const NamedTensor> parameters,
                                          const std::vector<ParameterGroup>& groups,
                                          std::span<const ElementRange> ranges) {
  return describe(options.kind).make(options, parameters, groups, ranges);
}

namespace {

/// The sums of squares of the pieces, in their order.
template <class Sums>
Sums sums_of_squares(const GradientPieces& gradients) {
  Sums squares(gradients.size());
  gradients.for_each([&]<class T>(const GradientPieces::Piece& piece, const T* gradient) {
    squares[piece.index] = kernels::sum_of_squares(piece.size, gradient);
  });
  return squares;
}

}  // namespace

double global_gradient_norm(std::span<const NamedTensor> parameters) {
  using Sums = std::vector<double, kernels::PoolAllocator<double>>;
  const auto squares = sums_of_squares<Sums>(GradientPieces(parameters));
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

std::vector<double> squares_of_gradients(std::span<const NamedTensor> parameters,
                                         std::span<const ElementRange> ranges) {
  return sums_of_squares<std::vector<double>>(GradientPieces(parameters, ranges));
}

double clip_factor(double norm, double max_norm) {
  if (!(max_norm >= 0.0 && std::isfinite(max_norm))) {
    throw ValueError(fmt::format("clip_factor: max_norm is {}, expected a finite number >= 0",
                                 printable(max_norm)));
  }
  return max_norm == 0.0 || norm <= max_norm ? 1.0 : max_norm / norm;
}

}  // namespace tapestry
