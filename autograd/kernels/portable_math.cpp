// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/portable_math.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <xsimd/xsimd.hpp>

// Compiled only for the baseline of the architecture, so that all processors execute the same
// instructions.
namespace tapestry::portable {
namespace {

using Vector = xsimd::batch<double>;

}  // namespace

double exp(double x) { return xsimd::exp(Vector(x)).get(0); }
double log(double x) {
  if (x > 0.0 && x < std::numeric_limits<double>::min()) {  // xsimd is wrong for subnormal numbers
    return log(x * 0x1p54) - 54.0 * std::numbers::ln2;
  }
  return xsimd::log(Vector(x)).get(0);
}
double sin(double x) { return xsimd::sin(Vector(x)).get(0); }
double cos(double x) { return xsimd::cos(Vector(x)).get(0); }
double pow(double x, double y) {
  if (y == 0.0) return 1.0;
  if (std::isnan(y)) return y;
  if (x == 0.0) return y < 0.0 ? std::numeric_limits<double>::infinity() : 0.0;
  constexpr double max_multiplied = 64.0;
  if (y == std::trunc(y) && std::abs(y) <= max_multiplied) {
    return xsimd::pow(Vector(x), static_cast<int>(y)).get(0);
  }
  const double power = xsimd::pow(Vector(x), Vector(y)).get(0);
  if (std::isnormal(power) || std::isnan(power)) return power;
  // xsimd overflows from e^708.4 on, and flushes subnormal results to 0.
  const double root = xsimd::pow(Vector(std::abs(x)), Vector(0.5 * y)).get(0);
  return std::copysign(root * root, power);
}

}  // namespace tapestry::portable
