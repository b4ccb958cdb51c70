// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <type_traits>
#include <vector>

#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

/// Compares vectorized functions with long double over the whole range of their arguments.
namespace {

using Exact = long double (*)(long double);

/// Largest errors, in units of the last place of the exact result or of `floor`, whichever is
/// larger.
struct Approximation {
  const char* name;
  Tensor (*function)(const Tensor&);
  Exact exact;
  double ulps32, ulps64;
  double floor32 = 0.0, floor64 = 0.0;
};

long double logistic(long double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
long double exact_gelu(long double x) {
  return x < -200 ? -0.0L : x / 2 * std::erfc(-x / std::numbers::sqrt2_v<long double>);
}
long double exact_gelu_tanh(long double x) {
  constexpr long double slope =
      2 * std::numbers::sqrt2_v<long double> * std::numbers::inv_sqrtpi_v<long double>;
  return x < -200 ? -0.0L : x * logistic(slope * (x + 0.044715L * x * x * x));
}
long double exact_softplus(long double x) {
  return std::max(x, 0.0L) + std::log1p(std::exp(-std::abs(x)));
}
long double exact_silu(long double x) { return x < -20000 ? -0.0L : x * logistic(x); }

/// The distance between adjacent numbers of T at |x|; at least the smallest subnormal number.
template <class T>
long double ulp(long double x) {
  const int exponent = x == 0 ? std::numeric_limits<T>::min_exponent : std::ilogb(x) + 1;
  return std::ldexp(1.0L, std::max(exponent, std::numeric_limits<T>::min_exponent) -
                              std::numeric_limits<T>::digits);
}

/// Numbers of every binade and both signs, including subnormal numbers, and many between -1000 and
/// 1000.
template <class T>
std::vector<double> arguments() {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::vector<double> x;
  for (std::uint64_t i = 0; i < (1U << 18); ++i) {
    const std::uint64_t mixed = i * 0x9e3779b97f4a7c15U;
    const auto value = std::bit_cast<T>(static_cast<Bits>(mixed >> (64 - 8 * sizeof(T))));
    if (std::isfinite(value)) x.push_back(static_cast<double>(value));
  }
  for (int i = -100000; i <= 100000; ++i) {
    for (const double range : {1000.0, 120.0, 6.0}) {
      x.push_back(static_cast<double>(static_cast<T>(i * range * 1e-5)));
    }
  }
  return x;
}

struct Worst {
  long double ulps = 0;
  double at = 0;
};

template <class T>
Worst worst_error(const Approximation& f, long double floor, const std::vector<double>& x) {
  const DType dtype = sizeof(T) == 4 ? DType::float32 : DType::float64;
  const std::vector<double> y = values_of(f.function(Tensor::from(x, dtype)));
  Worst worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double exact = f.exact(x[i]);
    const bool overflow = std::abs(exact) >= std::ldexp(1.0L, std::numeric_limits<T>::max_exponent);
    if (std::isnan(exact) || overflow) {
      const bool right =
          std::isnan(exact) ? std::isnan(y[i]) : std::isinf(y[i]) && (y[i] > 0) == (exact > 0);
      if (!right) return {std::numeric_limits<long double>::infinity(), x[i]};
      continue;
    }
    const long double error =
        std::abs(static_cast<long double>(y[i]) - exact) / ulp<T>(std::max(std::abs(exact), floor));
    if (!(error <= worst.ulps)) worst = {error, x[i]};
  }
  return worst;
}

}  // namespace

TEST_CASE("vectorized functions have the documented errors over their whole range") {
  const Approximation table[] = {
      {"exp", exp, std::exp, 1.6, 1},
      {"log", log, std::log, 1, 1},
      {"sqrt", sqrt, std::sqrt, 0.5, 0.5},
      {"tanh", tanh, std::tanh, 1.5, 1.5},
      {"sigmoid", sigmoid, logistic, 2.5, 2.5},
      {"silu", silu, exact_silu, 3.5, 3.5, 2e-36, 2e-305},
      {"gelu", gelu, exact_gelu, 1.5, 55, 1, 1},
      {"gelu_tanh", gelu_tanh, exact_gelu_tanh, 2, 2, 1, 1},
      {"softplus", softplus, exact_softplus, 2, 2},
      {"sin", sin, std::sin, 2, 2},
      {"cos", cos, std::cos, 2, 2},
      {"square", square, [](long double x) { return x * x; }, 0.5, 0.5},
      {"pow 3", [](const Tensor& x) { return pow(x, 3.0); },
       [](long double x) { return x * x * x; }, 1.5, 1.5},
      {"pow 1.5", [](const Tensor& x) { return pow(x, 1.5); },
       [](long double x) { return x * std::sqrt(x); }, 1, 1e4},
  };
  const std::vector<double> x32 = arguments<float>(), x64 = arguments<double>();
  for (const Approximation& f : table) {
    const std::string name = f.name;
    CAPTURE(name);
    const Worst in32 = worst_error<float>(f, f.floor32, x32);
    const Worst in64 = worst_error<double>(f, f.floor64, x64);
    CAPTURE(in32.at);
    CAPTURE(in64.at);
    CHECK(static_cast<double>(in32.ulps) <= f.ulps32);
    CHECK(static_cast<double>(in64.ulps) <= f.ulps64);
  }
}

TEST_CASE("exp overflows only where its result exceeds the largest number") {
  const auto exp_of = [](double x, DType dtype) { return exp(Tensor::scalar(x, dtype)).item(); };
  CHECK(exp_of(88.7228317, DType::float32) == doctest::Approx(3.4027985e38).epsilon(1e-6));
  CHECK(exp_of(88.7228394, DType::float32) == std::numeric_limits<double>::infinity());
  CHECK(exp_of(709.78271289338397, DType::float64) ==
        doctest::Approx(1.7976931348622732e308).epsilon(1e-15));
  CHECK(exp_of(709.7827128933841, DType::float64) == std::numeric_limits<double>::infinity());
}

TEST_CASE("exp of very negative numbers is subnormal, not 0") {
  const auto exp_of = [](double x, DType dtype) { return exp(Tensor::scalar(x, dtype)).item(); };
  CHECK(exp_of(-103.0, DType::float32) == 0x1p-149);
  CHECK(exp_of(-104.0, DType::float32) == 0.0);
  CHECK(exp_of(-745.0, DType::float64) == 0x1p-1074);
  CHECK(exp_of(-746.0, DType::float64) == 0.0);
}

TEST_CASE("gelu(x) is x for positive x whose square overflows, even next to other numbers") {
  for (const double x : {1e70, 1e154, 1e200, 1e308}) {
    const Tensor y = gelu(Tensor::from({x, 1.0, -x, x, x, x, x, 0.0, x, x, x}, DType::float64));
    const std::vector<double> found = values_of(y);
    for (const std::size_t i : {0, 3, 4, 5, 6, 8, 9, 10}) CHECK(found[i] == x);
    CHECK(found[2] == 0.0);
    CHECK(found[1] == doctest::Approx(0.8413447460685429));
  }
}
