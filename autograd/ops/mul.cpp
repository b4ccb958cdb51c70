#include "autograd/ops/mul.h"

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

constexpr auto times = [](const auto& x, const auto& y) { return x * y; };

struct Mul {
  static constexpr const char* name = "mul";
  Tensor a{}, b{};  // each kept only if the other's gradient is wanted

  Tensor forward(const Tensor& x, const Tensor& y) {
    if (y.requires_gradient()) a = x;
    if (x.requires_gradient()) b = y;
    return broadcast_values(name, times, x, y);
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    if (da) add_unbroadcast(da, broadcast_values(name, times, dy, b));
    if (db) add_unbroadcast(db, broadcast_values(name, times, dy, a));
  }
};

}  // namespace

Tensor mul(const Tensor& a, const Tensor& b) { return apply(Mul{}, a, b); }

}  // namespace tapestry
