// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/portable_math.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tests/support/values.h"

using namespace tapestry;
using test::inf;

namespace {

/// The largest relative error of 20,000 values between low and high, in units of 2^-53.
double worst_error(const std::function<double(double)>& f,
                   const std::function<long double(long double)>& exact, double low, double high) {
  constexpr int n = 20000;
  double worst = 0.0;
  for (int i = 0; i <= n; ++i) {
    const double x = low + (high - low) * (static_cast<double>(i) / n);
    const long double expected = exact(x);
    if (expected == 0.0L) continue;
    const long double error = (static_cast<long double>(f(x)) - expected) / expected;
    worst = std::max(worst, static_cast<double>(std::abs(error)) * 0x1p53);
  }
  return worst;
}

}  // namespace

TEST_CASE("portable functions are as accurate as documented") {
  const auto exp = [](long double x) { return std::exp(x); };
  const auto log = [](long double x) { return std::log(x); };
  const auto sin = [](long double x) { return std::sin(x); };
  const auto cos = [](long double x) { return std::cos(x); };
  CHECK(worst_error(portable::exp, exp, -700.0, 700.0) < 1.4);
  CHECK(worst_error(portable::exp, exp, -1.0, 1.0) < 1.4);
  CHECK(worst_error(portable::log, log, 1e-6, 2.0) < 1.5);
  CHECK(worst_error(portable::log, log, 2.0, 1e300) < 1.5);
  CHECK(worst_error(portable::sin, sin, -7.0, 7.0) < 2.1);
  CHECK(worst_error(portable::cos, cos, -7.0, 7.0) < 2.1);
  CHECK(worst_error(portable::sin, sin, -1e5, 1e5) < 3.1);
  CHECK(worst_error(portable::cos, cos, -1e5, 1e5) < 3.1);
  const auto power = [](double x) { return portable::pow(x, 0.37); };
  CHECK(worst_error(
            power, [](long double x) { return std::pow(x, 0.37L); }, 1e-3, 100.0) < 6.6);
  const auto decay = [](double t) { return portable::pow(0.999, std::floor(t)); };
  CHECK(worst_error(
            decay, [](long double t) { return std::pow(0.999L + (0.999 - 0.999L), std::floor(t)); },
            0.0, 20000.0) < 24.0);
}

TEST_CASE("portable functions are correct at the ends of their domains") {
  CHECK(portable::exp(0.0) == 1.0);
  CHECK(portable::exp(-inf) == 0.0);
  CHECK(portable::exp(710.0) == inf);
  CHECK(portable::exp(-745.0) == 0.0);
  CHECK(std::isnan(portable::exp(std::nan(""))));
  CHECK(portable::log(1.0) == 0.0);
  CHECK(portable::log(0.0) == -inf);
  CHECK(portable::log(inf) == inf);
  CHECK(std::isnan(portable::log(-1.0)));
  CHECK(portable::log(5e-324) == doctest::Approx(-744.4400719213812).epsilon(1e-15));
  CHECK(portable::sin(0.0) == 0.0);
  CHECK(portable::cos(0.0) == 1.0);
}

TEST_CASE("portable powers with small integer exponents are exact where products are exact") {
  CHECK(portable::pow(2.0, -1.0) == 0.5);
  CHECK(portable::pow(2.0, 10.0) == 1024.0);
  CHECK(portable::pow(-2.0, 3.0) == -8.0);
  CHECK(portable::pow(3.0, 1.0) == 3.0);
  CHECK(portable::pow(0.0, 0.0) == 1.0);
  CHECK(portable::pow(0.0, 2.0) == 0.0);
  CHECK(portable::pow(0.0, -2.0) == inf);
  CHECK(std::isnan(portable::pow(0.0, std::nan(""))));
  CHECK(std::isnan(portable::pow(2.0, std::nan(""))));
  CHECK(portable::pow(inf, 0.0) == 1.0);
  CHECK(portable::pow(2.0, 65.0) == doctest::Approx(0x1p65).epsilon(1e-14));
  CHECK(std::isnan(portable::pow(-2.0, 0.5)));
}
