#include "autograd/ops/gelu.h"

#include "autograd/kernels/activations.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Gelu {
  static constexpr const char* name = "gelu";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values([](const auto& v) { return kernels::gelu(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& v) { return g * kernels::gelu_derivative(v); }, dy, x);
  }
};

}  // namespace

Tensor gelu(const Tensor& x) { return apply(Gelu{}, x); }

}  // namespace tapestry
