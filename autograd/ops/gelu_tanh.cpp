#include "autograd/ops/gelu_tanh.h"

#include "autograd/kernels/activations.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct GeluTanh {
  static constexpr const char* name = "gelu_tanh";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values([](const auto& v) { return kernels::gelu_tanh(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& v) { return g * kernels::gelu_tanh_derivative(v); }, dy,
        x);
  }
};

}  // namespace

Tensor gelu_tanh(const Tensor& x) { return apply(GeluTanh{}, x); }

}  // namespace tapestry
