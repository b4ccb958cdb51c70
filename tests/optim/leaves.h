// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "autograd/gradient.h"
#include "autograd/named_tensor.h"
#include "optim/optimizer.h"

/// Helpers of the optimizer tests.
namespace tapestry::test {

inline constexpr OptimizerKind optimizer_kinds[] = {OptimizerKind::sgd, OptimizerKind::adam,
                                                    OptimizerKind::adamw};

/// With gradients 2 and 4, these options give moments that are easy to compute by hand.
inline constexpr OptimizerOptions round_numbers{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 1.0};

/// Options of this kind in which every number has an effect.
inline OptimizerOptions eventful_options(OptimizerKind kind) {
  return {.kind = kind, .momentum = 0.9, .weight_decay = 0.1};
}

inline NamedTensor leaf(const std::string& name, const Shape& shape,
                        const std::vector<double>& values, DType dtype = DType::float64) {
  return {name, Tensor::from(shape, values, dtype).set_requires_grad(true)};
}

/// n different values in [-1, 1] that depend on `phase`.
inline std::vector<double> uneven(std::size_t n, double phase) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::sin(phase + 3.7 * static_cast<double>(i));
  return values;
}

/// Sets the gradient of a leaf to these values.
inline void set_gradient(const NamedTensor& leaf, const std::vector<double>& values) {
  Tensor tensor = leaf.tensor;
  tensor.zero_grad();
  tensor.slot()->add(Tensor::from(tensor.shape(), values, tensor.dtype()));
}

}  // namespace tapestry::test
