// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/dropout.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace tapestry::kernels;

TEST_CASE("the dropout kernel draws each value by its index in the whole array, not in a part") {
  const std::size_t n = 4 * dropout_group + 44;
  const std::vector<double> x(n, 1.0);
  std::vector<double> whole(n, -1.0);
  dropout(5, 0, n, 0.5, x.data(), Target<double>{whole.data()});
  for (const std::size_t first : {dropout_group, 3 * dropout_group}) {
    std::vector<double> part(n - first, -1.0);
    dropout(5, first, n - first, 0.5, x.data() + first, Target<double>{part.data()});
    CHECK(part ==
          std::vector<double>(whole.begin() + static_cast<std::ptrdiff_t>(first), whole.end()));
  }
}

TEST_CASE("the dropout kernel works in place, and adds to its target on request") {
  std::vector<float> x(100, 1.0F);
  std::vector<float> sum(100, 10.0F);
  dropout(5, 0, x.size(), 0.5, x.data(), Target<float>{sum.data(), true});
  dropout(5, 0, x.size(), 0.5, x.data(), Target<float>{x.data()});
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK((x[i] == 0.0F || x[i] == 2.0F));
    CHECK(sum[i] == 10.0F + x[i]);
  }
}

namespace {

/// 1 where an element is kept and 0 where it is dropped, for n elements.
std::vector<float> kept(std::uint64_t key, double rate, std::size_t n) {
  const std::vector<float> ones(n, 1.0F);
  std::vector<float> y(n);
  dropout(key, 0, n, rate, ones.data(), Target<float>{y.data()});
  for (float& value : y) value = value != 0.0F ? 1.0F : 0.0F;
  return y;
}

/// The number of positions where both a[i] and b[i + shift] are dropped, minus its expectation for
/// independent draws, in standard deviations.
double deviation(const std::vector<float>& a, const std::vector<float>& b, std::size_t shift,
                 double rate) {
  const std::size_t n = a.size() - shift;
  double both = 0.0;
  for (std::size_t i = 0; i < n; ++i) both += a[i] == 0.0F && b[i + shift] == 0.0F ? 1.0 : 0.0;
  const double expected = rate * rate * static_cast<double>(n);
  return std::abs(both - expected) / std::sqrt(expected * (1.0 - rate * rate));
}

}  // namespace

TEST_CASE("the dropout kernel preserves the mean at rates that 16 bits cannot represent") {
  constexpr std::size_t n = std::size_t{1} << 24, part = std::size_t{1} << 18;
  const std::vector<float> ones(part, 1.0F);
  std::vector<float> y(part);
  for (const double rate : {1e-5, 4e-5, 0.1 + 0x1p-18, 0.999, 0.99999}) {
    CAPTURE(rate);
    double dropped = 0.0, sum = 0.0;
    for (std::size_t first = 0; first < n; first += part) {
      dropout(11, first, part, rate, ones.data(), Target<float>{y.data()});
      for (const float value : y) {
        dropped += value == 0.0F ? 1.0 : 0.0;
        sum += static_cast<double>(value);
      }
    }
    const double sigma = std::sqrt(static_cast<double>(n) * rate * (1.0 - rate));
    CHECK(std::abs(dropped - rate * static_cast<double>(n)) < 4.0 * sigma);
    CHECK(std::abs(sum - static_cast<double>(n)) < 4.0 * sigma / (1.0 - rate));
  }
}

TEST_CASE("the scale of kept elements compensates for the rate, to 48 bits") {
  CHECK(dropout_scale(0.0) == 1.0);
  CHECK(dropout_scale(0.5) == 2.0);
  CHECK(dropout_scale(1.0) == 0.0);
  CHECK(dropout_scale(1.0 - 0x1p-48) == 0x1p48);
  CHECK(dropout_scale(1.0 - 0x1.8p-47) == doctest::Approx(0x1p48 / 3.0).epsilon(1e-15));
  CHECK(dropout_scale(1.0 - 0x1p-50) == 0.0);
  for (const double rate : {1e-20, 1e-5, 0.1, 0.999, 0.99999}) {
    CAPTURE(rate);
    CHECK(dropout_scale(rate) * (1.0 - rate) == doctest::Approx(1.0).epsilon(1e-9));
  }
}

TEST_CASE(
    "if an element's upper 16 bits equal those of the rate, 32 more bits decide whether it is "
    "dropped") {
  constexpr std::size_t n = std::size_t{1} << 20;
  // Each element is kept at a rate equal to its 48 random bits, and dropped at a rate 2^-48 higher.
  std::size_t tied = 0;
  for (std::size_t i = 0; i < n && tied < 3; ++i) {
    alignas(64) std::uint32_t words[philox_group];
    if (i % dropout_group == 0) philox_words(7, i / dropout_group, words);
    const std::uint32_t word = words[i % dropout_group / 2];
    const std::uint64_t upper = i % 2 == 0 ? word & 0xffffU : word >> 16;
    if (upper != 6553) continue;
    ++tied;
    CAPTURE(i);
    const std::uint64_t bits = upper << 32 | philox(7, i / 4, 1)[i % 4];
    const double at = std::ldexp(static_cast<double>(bits), -48);
    CHECK(kept(7, at, n)[i] == 1.0F);
    CHECK(kept(7, at + 0x1p-48, n)[i] == 0.0F);
  }
  CHECK(tied == 3);
}

TEST_CASE("the dropped elements depend neither on neighbors nor on other streams") {
  constexpr std::size_t n = std::size_t{1} << 18;
  constexpr double rate = 0.3;
  const std::vector<float> of_one = kept(11, rate, n), of_next = kept(12, rate, n);
  for (const std::size_t shift : {1, 2, 16, 32, 64, 128}) {
    CAPTURE(shift);
    CHECK(deviation(of_one, of_one, shift, rate) < 5.0);
  }
  CHECK(deviation(of_one, of_next, 0, rate) < 5.0);
}

TEST_CASE("the dropout kernels set dropped elements to 0, even NaN, in full vectors and tails") {
  constexpr std::size_t n = dropout_group + 37;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::vector<float> keeps = kept(5, 0.5, n);
  std::vector<double> x(n, infinity), y(n, -1.0), sum(n, -1.0);
  const std::vector<double> residual(n, 3.0);
  dropout(5, 0, n, 0.5, x.data(), Target<double>{y.data()});
  dropout_add(5, 0, n, 0.5, residual.data(), x.data(), sum.data());
  for (std::size_t i = 0; i < n; ++i) {
    CHECK(y[i] == (keeps[i] != 0.0F ? infinity : 0.0));
    CHECK(sum[i] == (keeps[i] != 0.0F ? infinity : 3.0));
  }
}
