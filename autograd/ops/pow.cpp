#include "autograd/ops/pow.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

constexpr double largest_multiplied = 64.0;

/// x^p, lane by lane.
template <class T>
kernels::Vec<T> lanewise_power(const kernels::Vec<T>& x, double p) {
  alignas(64) T lanes[kernels::lanes<T>];
  x.store_aligned(lanes);
  for (T& value : lanes) value = static_cast<T>(std::pow(static_cast<double>(value), p));
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

Tensor pow(const Tensor& x, double exponent) {
  if (!std::isfinite(exponent)) {
    throw ValueError(fmt::format("pow: exponent is {}, expected a finite number", exponent));
  }
  return apply(Pow{exponent}, x);
}

}  // namespace tapestry
