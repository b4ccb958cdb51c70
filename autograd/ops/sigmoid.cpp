#include "autograd/ops/sigmoid.h"

#include "autograd/kernels/activations.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    return y = map_values([](const auto& v) { return kernels::sigmoid(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& s) { return g * s * (1 - s); }, dy, y);
  }
};

}  // namespace

Tensor sigmoid(const Tensor& x) { return apply(Sigmoid{}, x); }

}  // namespace tapestry
