#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/norms.h"
#include "autograd/ops/reductions.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

/// Gradients that are sums over very many rows, in float32 against float64 with the same operands.
namespace {

constexpr std::size_t rows = 200'000, n = 5;

/// Values of mean `mean` and standard deviation 0.58, exact in float32.
Tensor uneven(const Shape& shape, double mean, const char* name) {
  const RandomStream random = RandomStream(7).named(name);
  std::vector<double> values(shape.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(static_cast<float>(mean + 2.0 * random.uniform(i) - 1.0));
  }
  return Tensor::from(shape, values, DType::float64);
}

struct Sum {
  std::string name;
  std::vector<Tensor> operands;
  std::function<Tensor(const std::vector<Tensor>&)> run;
  /// The largest error allowed where dL/dy has mean 0, and where it has not. PyTorch 2.13 has
  /// errors of 3e-6 to 4e-5 for norms of such operands, of 1e-5 for linear.
  double without_mean = 6e-7, with_mean = 6e-7;
};

/// The gradients of the operands that have not `rows` rows, one after the other.
std::vector<std::vector<double>> summed_gradients(const Sum& sum, double mean, DType dtype) {
  std::vector<Tensor> leaves;
  for (const Tensor& operand : sum.operands) {
    leaves.push_back(operand.copied(dtype));
    if (operand.shape()[0] != rows) leaves.back().require_gradient();
  }
  Tape tape;
  const Tensor y = sum.run(leaves);
  tape.backward(y, uneven(y.shape(), mean, "dy").copied(dtype));
  std::vector<std::vector<double>> gradients;
  for (const Tensor& leaf : leaves) {
    if (leaf.gradient().defined()) gradients.push_back(values_of(leaf.gradient()));
  }
  return gradients;
}

/// The largest error of the gradients, relative to their largest value.
double worst_error(const Sum& sum, double mean) {
  const auto single = summed_gradients(sum, mean, DType::float32);
  const auto exact = summed_gradients(sum, mean, DType::float64);
  double worst = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double largest = 0.0, difference = 0.0;
    for (std::size_t j = 0; j < exact[i].size(); ++j) {
      largest = std::max(largest, std::abs(exact[i][j]));
      difference = std::max(difference, std::abs(single[i][j] - exact[i][j]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

std::vector<Sum> sums() {
  const Tensor x = uneven({rows, n}, 0.0, "x");
  const Tensor weight = Tensor::ones({n}, DType::float64),
               bias = Tensor::zeros({n}, DType::float64);
  Ids labels(Shape{rows});
  for (std::size_t i = 0; i < rows; ++i) labels[i] = static_cast<std::int32_t>(i * i % 7);
  using Operands = std::vector<Tensor>;
  return {
      {"layer_norm",
       {x, weight, bias},
       [](const Operands& o) { return layer_norm(o[0], o[1], o[2]); }},
      {"rms_norm", {x, weight}, [](const Operands& o) { return rms_norm(o[0], o[1]); }},
      {"batch_norm",
       {x, weight, bias},
       [](const Operands& o) { return batch_norm(o[0], o[1], o[2], 1e-5); },
       6e-7,
       2e-5},
      {"linear",
       {x, uneven({3, n}, 0.0, "weight"), Tensor::zeros({3}, DType::float64)},
       [](const Operands& o) { return linear(o[0], o[1], o[2]); },
       2e-6,
       2e-6},
      {"add", {x, bias}, [](const Operands& o) { return o[0] + o[1]; }},
      {"mul", {x, weight}, [](const Operands& o) { return o[0] * o[1]; }},
      {"linear_cross_entropy",
       {x, uneven({7, n}, 0.0, "weight"), Tensor::zeros({7}, DType::float64)},
       [=](const Operands& o) { return linear_cross_entropy(o[0], o[1], o[2], labels, {}).mean; },
       2e-6,
       2e-6},
  };
}

}  // namespace

TEST_CASE("gradients that are sums over very many rows are exact to a few roundings in float32") {
  for (const Sum& sum : sums()) {
    for (const double mean : {0.0, 1.5}) {
      CAPTURE(sum.name);
      CAPTURE(mean);
      CHECK(worst_error(sum, mean) < (mean == 0.0 ? sum.without_mean : sum.with_mean));
    }
  }
}
