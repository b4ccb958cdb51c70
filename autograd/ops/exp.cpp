#include "autograd/ops/exp.h"

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Exp {
  static constexpr const char* name = "exp";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    return y = map_values([](const auto& v) { return xsimd::exp(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, [](const auto& g, const auto& e) { return g * e; }, dy, y);
  }
};

}  // namespace

Tensor exp(const Tensor& x) { return apply(Exp{}, x); }

}  // namespace tapestry
