#include "autograd/ops/sqrt.h"

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Sqrt {
  static constexpr const char* name = "sqrt";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    return y = map_values([](const auto& v) { return xsimd::sqrt(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& r) { return g / (r + r); }, dy, y);
  }
};

}  // namespace

Tensor sqrt(const Tensor& x) { return apply(Sqrt{}, x); }

}  // namespace tapestry
