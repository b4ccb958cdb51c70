#include "autograd/ops/relu.h"

#include "autograd/kernels/activations.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/held_relu.h"

namespace tapestry {
namespace {

constexpr auto gradient_of_relu = []<class V>(const V& g, const V& y) {
  return xsimd::select(y <= V(0), V(0), g);
};

struct Relu {
  static constexpr const char* name = "relu";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    if (Pieces* const pieces = Pieces::active()) return y = held_relu(*pieces, x);
    return y = map_values([](const auto& v) { return kernels::relu(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const { map_gradient(dx, gradient_of_relu, dy, y); }
};

}  // namespace

Tensor relu(const Tensor& x) { return apply(Relu{}, x); }

}  // namespace tapestry
