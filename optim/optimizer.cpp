// SPDX-License-Identifier: BSD-3-Clause
#include "optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "autograd/error.h"
#include "autograd/gradient.h"
#include "autograd/kernels/reduce.h"
#include "autograd/named_tensor.h"
#include "optim/gradient_pieces.h"

namespace tapestry {
namespace {

void require(bool valid, const char* option, double value, const char* expected) {
  if (valid) return;
  throw ValueError(
      fmt::format("optimizer: {} is {}, expected {}", option, printable(value), expected));
}

void require_from_0_below_1(const char* option, double value) {
  require(value >= 0.0 && value < 1.0, option, value, "at least 0 and less than 1");
}

}  // namespace

void validate(const OptimizerOptions& options) {
  require_from_0_below_1("momentum", options.momentum);
  require_from_0_below_1("beta1", options.beta1);
  require_from_0_below_1("beta2", options.beta2);
  require(options.epsilon > 0.0 && std::isfinite(options.epsilon), "epsilon", options.epsilon,
          "a finite number > 0");
  require(options.weight_decay >= 0.0 && std::isfinite(options.weight_decay), "weight_decay",
          options.weight_decay, "a finite number >= 0");
}

namespace {

std::string_view path_without_dot(const ParameterGroup& group) {
  std::string_view path = group.path;
  if (path.ends_with('.')) path.remove_suffix(1);
  return path;
}

void require_not_negative(const char* field, const ParameterGroup& group, double value) {
  if (value >= 0.0 && std::isfinite(value)) return;
  throw ValueError(fmt::format("optimizer: {} of group `{}` is {}, expected a finite number >= 0",
                               field, group.path, printable(value)));
}

/// The groups, shorter paths first. Throws ValueError if two groups have the same path.
std::vector<ParameterGroup> from_short_to_long(std::span<const ParameterGroup> groups) {
  std::vector<ParameterGroup> sorted(groups.begin(), groups.end());
  std::ranges::sort(sorted, {}, [](const ParameterGroup& group) {
    return std::pair(path_without_dot(group).size(), path_without_dot(group));
  });
  const auto twice = std::ranges::adjacent_find(sorted, {}, path_without_dot);
  if (twice != sorted.end()) {
    throw ValueError(fmt::format("optimizer: two groups have the path `{}`, expected one",
                                 path_without_dot(*twice)));
  }
  return sorted;
}

}  // namespace

GroupedParameters::GroupedParameters(std::span<const NamedTensor> parameters, double weight_decay,
                                     std::span<const ParameterGroup> groups)
    : groups_{{.learning_rate_factor = 1.0, .weight_decay = weight_decay}},
      group_indices_(parameters.size(), 0) {
  for (const ParameterGroup& group : from_short_to_long(groups)) {
    require_not_negative("learning_rate_factor", group, group.learning_rate_factor);
    require_not_negative("weight_decay", group, group.weight_decay.value_or(0.0));
    for (const std::size_t i : indices_below("optimizer: group", group.path, parameters)) {
      group_indices_[i] = groups_.size();
    }
    groups_.push_back({.learning_rate_factor = group.learning_rate_factor,
                       .weight_decay = group.weight_decay.value_or(weight_decay)});
  }
}

namespace {

void require_leaf(const NamedTensor& parameter) {
  if (parameter.tensor.is_frozen()) return;
  if (!parameter.tensor.requires_grad()) {
    throw ValueError(
        fmt::format("optimizer: `{}` does not require a gradient, expected a parameter: call "
                    "set_requires_grad(true) on it first",
                    parameter.name));
  }
  if (parameter.tensor.slot()->origin() != GradientSlot::Origin::leaf) {
    throw ValueError(fmt::format(
        "optimizer: `{}` is the output of an operation, expected a parameter", parameter.name));
  }
}

/// Rejects duplicates: a tensor that occurs twice would be updated twice in each step.
void require_different(std::span<const NamedTensor> parameters) {
  std::set<std::string> names;
  std::map<const void*, std::string> tensors;
  for (const auto& [name, tensor] : parameters) {
    if (!names.insert(name).second) {
      throw ValueError(fmt::format("optimizer: two parameters are named `{}`, expected one", name));
    }
    const auto [same, is_new] = tensors.emplace(tensor.identity(), name);
    if (!is_new) {
      throw ValueError(fmt::format(
          "optimizer: `{}` and `{}` are the same tensor, expected each tensor once: list tied "
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
        "optimizer: the range of `{}` is {} to {}, expected a range within 0 to {}",
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

// Each function is defined in the .cpp file of the optimizer.
const OptimizerDescription& describe_sgd();
const OptimizerDescription& describe_adam();
const OptimizerDescription& describe_adamw();

const OptimizerDescription& describe(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return describe_sgd();
    case OptimizerKind::adam:
      return describe_adam();
    case OptimizerKind::adamw:
      return describe_adamw();
  }
  throw ValueError(fmt::format("optimizer: kind is {}, expected a value of OptimizerKind",
                               static_cast<int>(kind)));
}

bool OptimizerDescription::uses(std::string_view option) const {
  return std::ranges::find(options, option) != options.end();
}

}  // namespace tapestry
