// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/gradcheck/objectives.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/error.h"
#include "autograd/random.h"
#include "autograd/tape.h"

namespace tapestry::gradcheck_detail {
namespace {

/// Four independent partial sums take a third of the time of a single sum, since additions need not
/// wait for each other.
double inner_product(const Tensor& a, const Tensor& b) {
  const auto x = a.values<double>();
  const auto y = b.values<double>();
  long double sums[4] = {};
  std::size_t i = 0;
  const auto add = [&](std::size_t lane) {
    sums[lane] += static_cast<long double>(x[i + lane]) * y[i + lane];
  };
  for (; i + 4 <= x.size(); i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) add(lane);
  }
  for (; i < x.size(); ++i) add(0);
  return static_cast<double>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

double rounding_error(const Tensor& y, const Tensor& weights) {
  double squares = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double term = y.values<double>()[i] * weights.values<double>()[i];
    squares += term * term;
  }
  return std::numeric_limits<double>::epsilon() * std::sqrt(squares);
}

void require_same_shape(const Tensor& y, const Tensor& at_start) {
  if (y.shape() == at_start.shape()) return;
  throw ShapeError(
      fmt::format("gradcheck: the output has shape {} after a small change of a value, "
                  "expected {} as before the change",
                  to_string(y.shape()), to_string(at_start.shape())));
}

/// NaN equals itself.
bool bitwise_equal(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const auto x = a[k].tensor.values<double>();
    const auto y = b[k].tensor.values<double>();
    if (a[k].tensor.shape() != b[k].tensor.shape()) return false;
    if (std::memcmp(x.data(), y.data(), x.size_bytes()) != 0) return false;
  }
  return true;
}

}  // namespace

Objectives::Objectives(Function function, std::uint64_t seed) : function_(std::move(function)) {
  const NoGrad no_grad;
  const std::vector<NamedTensor> outputs = function_();
  require_repeatable(outputs);
  require_same_when_frozen(outputs);
  if (outputs.empty())
    throw ValueError("gradcheck: the function returned no outputs, expected at least one");
  const RandomStream random = RandomStream(seed).named("gradcheck output weights");
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Tensor& y = outputs[k].tensor;
    const std::vector<double> w = signed_weights(y.size(), random.at(k));
    Output output{
        .name = outputs[k].name, .y = y, .weights = Tensor::from(y.shape(), w, DType::float64)};
    measure(output);
    output.unit = y.size() == 1 ? w[0] : 1.0;
    outputs_.push_back(std::move(output));
  }
}

void Objectives::require_repeatable(const std::vector<NamedTensor>& outputs) const {
  if (bitwise_equal(outputs, function_())) return;
  throw ValueError(
      "gradcheck: the function returned different values when it was called again, expected the "
      "same: random numbers must come from the same stream each time");
}

void Objectives::require_same_when_frozen(const std::vector<NamedTensor>& outputs) const {
  const FrozenBranches::Pass frozen(branches_);
  if (bitwise_equal(outputs, function_())) return;
  throw ValueError(
      "gradcheck: the function returned different values while the branches of piecewise "
      "operations were frozen, expected the same: check the operations that define freeze()");
}

void Objectives::measure(Output& output) const {
  output.value = inner_product(output.y, output.weights);
  output.rounding = rounding_error(output.y, output.weights);
}

void Objectives::mask_zero_gradients(std::size_t k, const Tensor& dy) {
  const auto weights = outputs_[k].weights.mutable_values<double>();
  const auto g = dy.values<double>();
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (g[i] == 0.0) weights[i] = 0.0;
  }
  measure(outputs_[k]);
}

std::vector<double> Objectives::values() const {
  const NoGrad no_grad;
  const FrozenBranches::Pass frozen(branches_);
  const std::vector<NamedTensor> outputs = function_();
  std::vector<double> values;
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    require_same_shape(outputs.at(k).tensor, outputs_[k].weights);
    values.push_back(inner_product(outputs[k].tensor, outputs_[k].weights));
  }
  return values;
}

std::vector<Tensor> Objectives::gradients(std::size_t k, std::span<const NamedTensor> leaves,
                                          TapeObserver* observer) const {
  const auto clear = [&] {
    for (NamedTensor leaf : leaves) leaf.tensor.zero_grad();
  };
  clear();
  Tape tape(observer);
  tape.detect_writes_to_dy();
  const Tensor y = function_().at(k).tensor;
  // Passes a copy of the weights, because a faulty operation may write to it, and the finite
  // differences still need the weights.
  if (y.requires_grad()) tape.backward(y, outputs_[k].weights.to(DType::float64));
  std::vector<Tensor> gradients;
  for (const NamedTensor& leaf : leaves) {
    const Tensor gradient = leaf.tensor.grad();
    gradients.push_back(gradient.defined() ? gradient.to(DType::float64) : Tensor());
  }
  clear();
  return gradients;
}

std::vector<double> signed_weights(std::size_t n, const RandomStream& random) {
  std::vector<double> weights(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double u = 2.0 * random.uniform(i) - 1.0;
    weights[i] = std::copysign(0.5 + std::abs(u), u);
  }
  return weights;
}

}  // namespace tapestry::gradcheck_detail
