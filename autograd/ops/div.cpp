#include "autograd/ops/div.h"

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

constexpr auto over = [](const auto& x, const auto& y) { return x / y; };

struct Div {
  static constexpr const char* name = "div";
  Tensor b{}, y{};  // y = a / b, kept only if b's gradient is wanted

  Tensor forward(const Tensor& numerator, const Tensor& denominator) {
    b = denominator;
    Tensor quotient = broadcast_values(name, over, numerator, denominator);
    if (denominator.requires_gradient()) y = quotient;
    return quotient;
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    const Tensor g = broadcast_values(name, over, dy, b);  // dL/dy / b
    if (da) add_unbroadcast(da, g);
    if (db) add_unbroadcast(db, map_values([](const auto& u, const auto& v) { return -u * v; }, g, y));
  }
};

}  // namespace

Tensor div(const Tensor& a, const Tensor& b) { return apply(Div{}, a, b); }

}  // namespace tapestry
