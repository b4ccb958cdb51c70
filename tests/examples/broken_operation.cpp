// SPDX-License-Identifier: BSD-3-Clause
// An operation with a mistake in its gradient, and how the checker finds it inside a network.
//
// RMS norm [1] divides each row by the root of its mean square,
//
//     y = x / r,   r = sqrt(mean(x^2)),          dL/dx = (g - y mean(g y)) / r   for g = dL/dy.
//
// The gradient below treats r as a constant and so omits the second term. It looks right, and a
// model still trains with it, but worse. The program fails unless the checker finds the mistake.
//
// [1] Zhang & Sennrich 2019, "Root mean square layer normalization", equation 4.

#include <tapestry/autograd/error.h>
#include <tapestry/autograd/gradcheck/gradcheck.h>
#include <tapestry/autograd/operation.h>
#include <tapestry/autograd/ops/activations.h>
#include <tapestry/autograd/ops/linear.h>

#include <cmath>
#include <cstdio>
#include <string>

namespace {

using tapestry::DType;
using tapestry::Gradient;
using tapestry::Tensor;

struct BrokenRmsNorm {
  static constexpr const char* name = "broken_rms_norm";
  Tensor roots{};  // r of each row

  Tensor forward(const Tensor& x) {
    const std::size_t n = x.shape().back();
    roots = Tensor::empty({x.size() / n}, x.dtype());
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    const auto in = x.values<double>();
    for (std::size_t row = 0; row < roots.size(); ++row) {
      double squares = 0.0;
      for (std::size_t i = 0; i < n; ++i) squares += in[row * n + i] * in[row * n + i];
      const double r = std::sqrt(squares / static_cast<double>(n));
      roots.mutable_values<double>()[row] = r;
      for (std::size_t i = 0; i < n; ++i)
        y.mutable_values<double>()[row * n + i] = in[row * n + i] / r;
    }
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const auto g = dy.values<double>();
    const auto target = dx.target<double>();
    const std::size_t n = dy.shape().back();
    for (std::size_t i = 0; i < g.size(); ++i) target.put(i, g[i] / roots.values<double>()[i / n]);
  }
};

/// Irregular values from -1 to 1.
Tensor leaf(const tapestry::Shape& shape, double phase) {
  Tensor x = Tensor::empty(shape, DType::float64);
  double i = 0.0;
  for (double& value : x.mutable_values<double>()) value = std::sin(phase + 2.4 * ++i);
  return x.set_requires_grad(true);
}

}  // namespace

int main() {
  const Tensor x = leaf({5, 4}, 0.1), w1 = leaf({6, 4}, 0.2), w2 = leaf({3, 6}, 0.3);
  const auto network = [&] {
    const Tensor hidden = tapestry::tanh(tapestry::linear(x, w1));
    static const std::string& path = tapestry::interned_path("encoder.norm");
    const tapestry::LayerPath here(path);  // names the layer in errors and reports
    return tapestry::linear(tapestry::apply(BrokenRmsNorm{}, hidden), w2);
  };

  const tapestry::GradcheckReport report =
      tapestry::gradcheck(network, {{"x", x}, {"w1", w1}, {"w2", w2}});
  std::fputs(to_string(report).c_str(), stdout);

  // The wrong gradients are the gradients of x and w1, which pass through the operation.
  const bool found = report.first_wrong && report.first_wrong->operation == "broken_rms_norm" &&
                     report.first_wrong->layer_path == "encoder.norm" &&
                     report.count(tapestry::GradcheckVerdict::wrong) == 2;
  return found ? 0 : 1;
}
