#include "autograd/ops/tanh.h"

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Tanh {
  static constexpr const char* name = "tanh";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    return y = map_values([](const auto& v) { return xsimd::tanh(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& t) { return g * (1 - t * t); }, dy, y);
  }
};

}  // namespace

Tensor tanh(const Tensor& x) { return apply(Tanh{}, x); }

}  // namespace tapestry
