#include "autograd/ops/square.h"

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Square {
  static constexpr const char* name = "square";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values([](const auto& v) { return v * v; }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& v) { return g * (v + v); }, dy, x);
  }
};

}  // namespace

Tensor square(const Tensor& x) { return apply(Square{}, x); }

}  // namespace tapestry
