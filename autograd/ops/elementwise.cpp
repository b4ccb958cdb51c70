#include "autograd/ops/elementwise.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "autograd/error.h"
#include "autograd/kernels/exp.h"
#include "autograd/kernels/portable_math.h"
#include "autograd/operation.h"
#include "autograd/ops/detail/elementwise.h"

namespace tapestry {
namespace {

struct Add {
  static constexpr const char* name = "add";
  static constexpr const char* formula = "y = a + b";
  static constexpr const char* derivative =
      "dL/da = dL/dy, dL/db = dL/dy, each summed over broadcast axes";

  Tensor forward(const Tensor& a, const Tensor& b) {
    return broadcast_values(
        name, [](const auto& x, const auto& y) { return x + y; }, a, b);
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
    return broadcast_values(
        name, [](const auto& x, const auto& y) { return x - y; }, a, b);
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    if (da) add_unbroadcast(da, dy);
    if (db) add_unbroadcast(db, map_values([](const auto& g) { return -g; }, dy));
  }
};

constexpr auto times = [](const auto& x, const auto& y) { return x * y; };

struct Mul {
  static constexpr const char* name = "mul";
  static constexpr const char* formula = "y = a · b";
  static constexpr const char* derivative =
      "dL/da = dL/dy · b, dL/db = dL/dy · a, each summed over broadcast axes";
  Tensor a{}, b{};  // each kept only if the other's gradient is needed

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

constexpr auto over = [](const auto& x, const auto& y) { return x / y; };

struct Div {
  static constexpr const char* name = "div";
  static constexpr const char* formula = "y = a / b";
  static constexpr const char* derivative =
      "dL/da = dL/dy / b, dL/db = −dL/dy · a / b², each summed over broadcast axes";
  Tensor b{}, y{};  // y = a / b, kept only if b's gradient is needed

  Tensor forward(const Tensor& numerator, const Tensor& denominator) {
    b = denominator;
    Tensor quotient = broadcast_values(name, over, numerator, denominator);
    if (denominator.requires_gradient()) y = quotient;
    return quotient;
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    const Tensor g = broadcast_values(name, over, dy, b);  // dL/dy / b
    if (da) add_unbroadcast(da, g);
    if (db) {
      add_unbroadcast(db, map_values([](const auto& u, const auto& v) { return -u * v; }, g, y));
    }
  }
};

/// A product, because xsimd 8.1 computes -v as 0 - v, which maps 0 to 0 instead of -0.
constexpr auto negated = []<class V>(const V& v) { return v * V(-1); };

struct Neg {
  static constexpr const char* name = "neg";
  static constexpr const char* formula = "y = −x";
  static constexpr const char* derivative = "dL/dx = −dL/dy";

  Tensor forward(const Tensor& x) { return map_values(negated, x); }
  void backward(const Tensor& dy, Gradient dx) const { map_gradient(dx, negated, dy); }
};

struct Scale {
  static constexpr const char* name = "scale";
  static constexpr const char* derivative = "dL/dx = c dL/dy, c the factor of x";
  double factor;

  std::string formula() const { return fmt::format("y = {:.6g} x", factor); }

  template <class T>
  kernels::Vec<T> operator()(const kernels::Vec<T>& v) const {
    return v * kernels::Vec<T>(static_cast<T>(factor));
  }

  Tensor forward(const Tensor& x) { return map_values(*this, x); }
  void backward(const Tensor& dy, Gradient dx) const { map_gradient(dx, *this, dy); }
};

struct Exp {
  static constexpr const char* name = "exp";
  static constexpr const char* formula = "y = exp(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy · y";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    return y = map_values([](const auto& v) { return kernels::exp(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& e) { return g * e; }, dy, y);
  }
};

/// xsimd 8.1 is exact to 0.7 epsilons, but wrong for subnormal float64 values: those are scaled
/// into the normal range first.
constexpr auto logarithm = []<class T>(const kernels::Vec<T>& v) {
  using V = kernels::Vec<T>;
  constexpr int lift = 54;
  const auto subnormal = v < V(std::numeric_limits<T>::min());
  const V lifted = xsimd::select(subnormal, v * V(static_cast<T>(1LL << lift)), v);
  const V excess = xsimd::select(subnormal, V(static_cast<T>(lift * std::numbers::ln2)), V(T(0)));
  return V(xsimd::log(lifted) - excess);
};

struct Log {
  static constexpr const char* name = "log";
  static constexpr const char* formula = "y = log(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy / x";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(logarithm, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& v) { return g / v; }, dy, x);
  }
};

struct Sin {
  static constexpr const char* name = "sin";
  static constexpr const char* formula = "y = sin(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy · cos(x)";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values([](const auto& v) { return xsimd::sin(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& v) { return g * xsimd::cos(v); }, dy, x);
  }
};

struct Cos {
  static constexpr const char* name = "cos";
  static constexpr const char* formula = "y = cos(x)";
  static constexpr const char* derivative = "dL/dx = −dL/dy · sin(x)";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values([](const auto& v) { return xsimd::cos(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& v) { return -g * xsimd::sin(v); }, dy, x);
  }
};

struct Sqrt {
  static constexpr const char* name = "sqrt";
  static constexpr const char* formula = "y = √x";
  static constexpr const char* derivative = "dL/dx = dL/dy / (2 y)";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    return y = map_values([](const auto& v) { return xsimd::sqrt(v); }, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& r) { return g / (r + r); }, dy, y);
  }
};

struct Square {
  static constexpr const char* name = "square";
  static constexpr const char* formula = "y = x²";
  static constexpr const char* derivative = "dL/dx = dL/dy · 2 x";
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

constexpr double largest_multiplied = 64.0;

/// x^p, lane by lane.
template <class T>
kernels::Vec<T> lanewise_power(const kernels::Vec<T>& x, double p) {
  alignas(64) T lanes[kernels::lanes<T>];
  x.store_aligned(lanes);
  for (T& value : lanes) value = static_cast<T>(portable::pow(static_cast<double>(value), p));
  return kernels::Vec<T>::load_aligned(lanes);
}

/// x^p on vectors.
struct Power {
  double p;

  template <class T>
  kernels::Vec<T> operator()(const kernels::Vec<T>& x) const {
    const bool multiplied = p == std::trunc(p) && std::abs(p) <= largest_multiplied;
    return multiplied ? xsimd::pow(x, static_cast<int>(p)) : lanewise_power<T>(x, p);
  }
};

/// g p x^(p-1) on vectors.
struct PowerGradient {
  double p;

  template <class T>
  kernels::Vec<T> operator()(const kernels::Vec<T>& g, const kernels::Vec<T>& x) const {
    if (p == 0.0) return kernels::Vec<T>(T(0));
    return g * kernels::Vec<T>(static_cast<T>(p)) * Power{p - 1.0}(x);
  }
};

struct Pow {
  static constexpr const char* name = "pow";
  static constexpr const char* formula = "y = x^p, for a constant p";
  static constexpr const char* derivative = "dL/dx = dL/dy · p x^(p − 1)";
  double exponent;
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(Power{exponent}, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, PowerGradient{exponent}, dy, x);
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
