#include "autograd/ops/silu.h"

#include "autograd/kernels/activations.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Silu {
  static constexpr const char* name = "silu";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values([](const auto& v) { return kernels::silu(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& v) { return g * kernels::silu_derivative(v); }, dy, x);
  }
};

}  // namespace

Tensor silu(const Tensor& x) { return apply(Silu{}, x); }

}  // namespace tapestry
