// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/elementwise.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/operation.h"
#include "autograd/ops/internal/elementwise.h"

namespace tapestry {
namespace {

using kernels::Binary;
using kernels::Function;
using kernels::Unary;

struct Add {
  static constexpr const char* name = "add";
  static constexpr const char* formula = "y = a + b";
  static constexpr const char* derivative =
      "dL/da = dL/dy, dL/db = dL/dy, each summed over broadcast axes";

  Tensor forward(const Tensor& a, const Tensor& b) {
    return broadcast_values(name, Binary::add, a, b);
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    if (da) add_unbroadcast(da, dy);
    if (db) add_unbroadcast(db, dy);
  }
};

struct Sub {
  static constexpr const char* name = "sub";
  static constexpr const char* formula = "y = a − b";
  static constexpr const char* derivative =
      "dL/da = dL/dy, dL/db = −dL/dy, each summed over broadcast axes";

  Tensor forward(const Tensor& a, const Tensor& b) {
    return broadcast_values(name, Binary::sub, a, b);
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    if (da) add_unbroadcast(da, dy);
    if (db) add_unbroadcast(db, map_values(Unary::zero_minus, dy));
  }
};

struct Mul {
  static constexpr const char* name = "mul";
  static constexpr const char* formula = "y = a · b";
  static constexpr const char* derivative =
      "dL/da = dL/dy · b, dL/db = dL/dy · a, each summed over broadcast axes";
  Tensor a{}, b{};  // each is kept only if the other's gradient is needed

  Tensor forward(const Tensor& x, const Tensor& y) {
    if (y.requires_grad()) a = x;
    if (x.requires_grad()) b = y;
    return broadcast_values(name, Binary::mul, x, y);
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    if (da) add_unbroadcast(da, broadcast_values(name, Binary::mul, dy, b));
    if (db) add_unbroadcast(db, broadcast_values(name, Binary::mul, dy, a));
  }
};

struct Div {
  static constexpr const char* name = "div";
  static constexpr const char* formula = "y = a / b";
  static constexpr const char* derivative =
      "dL/da = dL/dy / b, dL/db = −dL/dy · a / b², each summed over broadcast axes";
  Tensor b{}, y{};  // y = a / b, which is kept only if b's gradient is needed

  Tensor forward(const Tensor& numerator, const Tensor& denominator) {
    b = denominator;
    Tensor quotient = broadcast_values(name, Binary::div, numerator, denominator);
    if (denominator.requires_grad()) y = quotient;
    return quotient;
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    const Tensor g = broadcast_values(name, Binary::div, dy, b);  // dL/dy / b
    if (da) add_unbroadcast(da, g);
    if (db) {
      add_unbroadcast(db, map_values(Binary::negate_mul, g, y));
    }
  }
};

struct Neg {
  static constexpr const char* name = "neg";
  static constexpr const char* formula = "y = −x";
  static constexpr const char* derivative = "dL/dx = −dL/dy";

  Tensor forward(const Tensor& x) { return map_values(Unary::neg, x); }
  void backward(const Tensor& dy, Gradient dx) const { map_gradient(dx, Unary::neg, dy); }
};

struct Scale {
  static constexpr const char* name = "scale";
  double factor;

  std::string formula() const { return fmt::format("y = {:.6g} x", factor); }
  std::string derivative() const { return fmt::format("dL/dx = {:.6g} dL/dy", factor); }

  Tensor forward(const Tensor& x) { return map_values(Function{Unary::scale, factor}, x); }
  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Function{Unary::scale, factor}, dy);
  }
};

struct Exp : MapOfOutput<Unary::exp, Binary::mul> {
  static constexpr const char* name = "exp";
  static constexpr const char* formula = "y = exp(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy · y";
};

struct Log : MapOfInput<Unary::log, Binary::div> {
  static constexpr const char* name = "log";
  static constexpr const char* formula = "y = log(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy / x";
};

struct Sin : MapOfInput<Unary::sin, Binary::sin_gradient> {
  static constexpr const char* name = "sin";
  static constexpr const char* formula = "y = sin(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy · cos(x)";
};

struct Cos : MapOfInput<Unary::cos, Binary::cos_gradient> {
  static constexpr const char* name = "cos";
  static constexpr const char* formula = "y = cos(x)";
  static constexpr const char* derivative = "dL/dx = −dL/dy · sin(x)";
};

struct Sqrt : MapOfOutput<Unary::sqrt, Binary::sqrt_gradient> {
  static constexpr const char* name = "sqrt";
  static constexpr const char* formula = "y = √x";
  static constexpr const char* derivative = "dL/dx = dL/dy / (2 y)";
};

struct Square : MapOfInput<Unary::square, Binary::square_gradient> {
  static constexpr const char* name = "square";
  static constexpr const char* formula = "y = x²";
  static constexpr const char* derivative = "dL/dx = dL/dy · 2 x";
};

struct Pow {
  static constexpr const char* name = "pow";
  static constexpr const char* formula = "y = x^p, for a constant p";
  static constexpr const char* derivative = "dL/dx = dL/dy · p x^(p − 1)";
  double exponent;
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(Function{Unary::power, exponent}, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Function{Binary::power_gradient, exponent}, dy, x);
  }
};

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return apply(Add{}, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return apply(Sub{}, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return apply(Mul{}, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return apply(Div{}, a, b); }
Tensor neg(const Tensor& x) { return apply(Neg{}, x); }
Tensor scale(const Tensor& x, double factor) { return apply(Scale{factor}, x); }
Tensor exp(const Tensor& x) { return apply(Exp{}, x); }
Tensor log(const Tensor& x) { return apply(Log{}, x); }
Tensor sin(const Tensor& x) { return apply(Sin{}, x); }
Tensor cos(const Tensor& x) { return apply(Cos{}, x); }
Tensor sqrt(const Tensor& x) { return apply(Sqrt{}, x); }
Tensor square(const Tensor& x) { return apply(Square{}, x); }

Tensor pow(const Tensor& x, double exponent) {
  if (!std::isfinite(exponent)) {
    throw ValueError(
        fmt::format("pow: exponent is {}, expected a finite number", printable(exponent)));
  }
  return apply(Pow{exponent}, x);
}

}  // namespace tapestry
