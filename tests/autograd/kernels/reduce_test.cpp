// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/reduce.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/threads.h"

namespace tapestry::kernels {

namespace {

template <class T>
std::vector<T> uneven(std::size_t n) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<T>(std::sin(1.0 + 3.7 * static_cast<double>(i)));
  }
  return values;
}

template <class T>
std::vector<double> sums_by_loops(std::size_t outer, std::size_t extent, std::size_t inner,
                                  const std::vector<T>& in) {
  std::vector<double> sums(outer * inner, 0.0);
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t k = 0; k < extent; ++k) {
      for (std::size_t i = 0; i < inner; ++i) {
        sums[o * inner + i] += static_cast<double>(in[(o * extent + k) * inner + i]);
      }
    }
  }
  return sums;
}

template <class T>
void check_sums(std::size_t outer, std::size_t extent, std::size_t inner) {
  CAPTURE(outer);
  CAPTURE(extent);
  CAPTURE(inner);
  const std::vector<T> in = uneven<T>(outer * extent * inner);
  const std::vector<double> expected = sums_by_loops(outer, extent, inner, in);
  const double bound =
      static_cast<double>(std::numeric_limits<T>::epsilon()) * static_cast<double>(extent + 1);
  std::vector<T> written(outer * inner, std::numeric_limits<T>::quiet_NaN());
  std::vector<T> added(outer * inner, T(2));
  sum_middle_axis(outer, extent, inner, in.data(), Target<T>{written.data()});
  sum_middle_axis(outer, extent, inner, in.data(), Target<T>{added.data(), true});
  double worst = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(written[i]) - expected[i]));
    worst = std::max(worst, std::abs(static_cast<double>(added[i]) - expected[i] - 2.0));
    REQUIRE_FALSE(std::isnan(written[i]));
  }
  CHECK(worst <= 2 * bound);
}

}  // namespace

TEST_CASE("sums over the middle axis agree with loops for all kinds of extents") {
  for (const std::size_t outer : {1, 3}) {
    for (const std::size_t extent : {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 33, 1000}) {
      for (const std::size_t inner : {1, 2, 7, 8, 15, 16, 17, 63, 64, 65, 130}) {
        check_sums<float>(outer, extent, inner);
        check_sums<double>(outer, extent, inner);
      }
    }
  }
  check_sums<float>(0, 3, 2);
  check_sums<float>(3, 2, 0);
  check_sums<float>(40000, 2, 1);
  check_sums<double>(1, 70000, 1);
}

TEST_CASE(
    "the sum of squares of float32 values is as accurate as in float64 and does not overflow") {
  constexpr std::size_t n = 100003;
  const std::vector<float> in = uneven<float>(n);
  long double expected = 0.0L;
  for (const float x : in) expected += static_cast<long double>(x) * static_cast<long double>(x);
  CHECK(sum_of_squares(n, in.data()) ==
        doctest::Approx(static_cast<double>(expected)).epsilon(1e-14));
  const std::vector<float> large(20, 1e30F);
  CHECK(sum_of_squares(20, large.data()) == doctest::Approx(2e61).epsilon(1e-6));
}

}  // namespace tapestry::kernels
