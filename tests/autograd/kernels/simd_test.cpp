// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/simd.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include "autograd/kernels/exp.h"

using namespace tapestry::kernels;

namespace {

const std::vector<std::size_t> sizes = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100};

template <class T>
std::vector<T> uneven(std::size_t n) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<T>(std::sin(1.0 + 3.7 * static_cast<double>(i)));
  }
  return values;
}

template <class T>
void check_map() {
  for (const std::size_t n : sizes) {
    CAPTURE(n);
    const std::vector<T> a = uneven<T>(n);
    std::vector<T> written(n + 1, T(99)), added(n + 1, T(99));
    std::fill_n(added.begin(), n, T(1));
    const auto negate_and_halve = [](const Vec<T>& v) { return v * Vec<T>(T(-0.5)); };
    map(n, Target<T>{written.data()}, negate_and_halve, a.data());
    map(n, Target<T>{added.data(), true}, negate_and_halve, a.data());
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(written[i] == a[i] * T(-0.5));
      CHECK(added[i] == T(1) + a[i] * T(-0.5));
    }
    CHECK(written[n] == T(99));
    CHECK(added[n] == T(99));
  }
}

template <class T>
void check_folds() {
  const T epsilon = std::numeric_limits<T>::epsilon();
  for (const std::size_t n : sizes) {
    CAPTURE(n);
    const std::vector<T> a = uneven<T>(n);
    long double sum = 0.0L;
    for (const T x : a) sum += static_cast<long double>(x) * static_cast<long double>(x);
    const T found = sum_map<T>(
        n, [](const Vec<T>& u, const Vec<T>& v) { return u * v; }, a.data(), a.data());
    CHECK(std::abs(static_cast<double>(found) - static_cast<double>(sum)) <=
          static_cast<double>(epsilon) * static_cast<double>(n));
    const T largest =
        n == 0 ? -std::numeric_limits<T>::infinity() : *std::max_element(a.begin(), a.end());
    CHECK(max_value(n, a.data()) == largest);
  }
}

template <class T>
void check_map_and_sum() {
  const auto square = [](const Vec<T>& v) { return v * v; };
  for (const std::size_t n : sizes) {
    CAPTURE(n);
    const std::vector<T> a = uneven<T>(n);
    std::vector<T> out(n + 1, T(99)), in_place = a;
    const T sum = map_and_sum(n, a.data(), out.data(), square);
    CHECK(map_and_sum(n, in_place.data(), in_place.data(), square) == sum);
    double expected = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(out[i] == a[i] * a[i]);
      CHECK(in_place[i] == out[i]);
      expected += static_cast<double>(out[i]);
    }
    CHECK(out[n] == T(99));
    CHECK(std::abs(static_cast<double>(sum) - expected) <=
          static_cast<double>(std::numeric_limits<T>::epsilon()) * static_cast<double>(n));
  }
}

/// Writes 37 equal products, or adds them to equal values. Returns how many results differ from the
/// first result.
template <class T>
std::size_t uneven_products(bool add) {
  std::size_t uneven = 0;
  for (int step = 0; step < 200; ++step) {
    const std::vector<T> a(37, static_cast<T>(0.1 + 0.0137 * step));
    const std::vector<T> b(37, static_cast<T>(1.3 - 0.0071 * step));
    std::vector<T> y(37, T(0.77));
    const auto product = [](const Vec<T>& u, const Vec<T>& v) { return u * v; };
    map(37, Target<T>{y.data(), add}, product, a.data(), b.data());
    for (const T value : y) uneven += value != y[0];
  }
  return uneven;
}

}  // namespace

TEST_CASE("the result of map for an element does not depend on its position in the array") {
  for (const bool add : {false, true}) {
    CHECK(uneven_products<float>(add) == 0);
    CHECK(uneven_products<double>(add) == 0);
  }
}

TEST_CASE("map writes or adds n values and leaves the values after them unchanged") {
  check_map<float>();
  check_map<double>();
}

TEST_CASE("sum_of and max_of use each of n values once") {
  check_folds<float>();
  check_folds<double>();
}

TEST_CASE("map_and_sum writes n values, possibly in place, and sums each of them once") {
  check_map_and_sum<float>();
  check_map_and_sum<double>();
}

TEST_CASE("the maximum of negative values ignores the padding of the last vector") {
  for (const std::size_t n : {1, 5, 9, 17, 33}) {
    const std::vector<float> a(n, -3.0F);
    CHECK(max_value(n, a.data()) == -3.0F);
  }
}

TEST_CASE("map does not mix lanes: NaN stays in its element") {
  for (std::size_t bad = 0; bad < 19; ++bad) {
    std::vector<double> a(19, 1.0), y(19);
    a[bad] = std::numeric_limits<double>::quiet_NaN();
    map(
        19, Target<double>{y.data()}, [](const Vec<double>& v) { return v + v; }, a.data());
    for (std::size_t i = 0; i < 19; ++i) CHECK(std::isnan(y[i]) == (i == bad));
  }
}

namespace {

/// Many numbers of both signs, the limits of exp and the numbers adjacent to the limits.
template <class T>
std::vector<T> arguments() {
  constexpr bool single = std::is_same_v<T, float>;
  const T range = single ? T(104) : T(746);
  constexpr int count = 200'000;
  std::vector<T> x;
  for (int i = -count; i <= count; ++i) x.push_back(range * static_cast<T>(i) / T(count));
  // From subnormal e^x to the binades above, where the exponent of a product may be too small.
  const T low = single ? T(-88) : T(-710);
  for (int i = 0; i < count; ++i) x.push_back(low + T(3) * static_cast<T>(i) / T(count));
  for (const T limit : {-range, low, T(-0.0), T(0), std::numeric_limits<T>::max(),
                        std::numeric_limits<T>::infinity()}) {
    x.push_back(limit);
    x.push_back(-limit);
  }
  return x;
}

template <class T>
T exp_of(T x) {
  return tapestry::kernels::exp<T>(Vec<T>(x)).get(0);
}

}  // namespace

TEST_CASE_TEMPLATE("exp of an element does not depend on the other elements of its vector", T,
                   float, double) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T usual = T(0.75), huge = std::is_same_v<T, float> ? T(88.5) : T(709.5);
  std::size_t different = 0;
  for (const T x : arguments<T>()) {
    const T alone = exp_of(x);
    for (const T neighbor :
         {usual, huge, -huge, infinity, -infinity, std::numeric_limits<T>::quiet_NaN()}) {
      alignas(64) T vector[lanes<T>];
      std::fill(vector, vector + lanes<T>, neighbor);
      vector[1] = x;
      if (tapestry::kernels::exp<T>(Vec<T>::load_aligned(vector)).get(1) != alone) ++different;
    }
  }
  CHECK(different == 0);
}

TEST_CASE_TEMPLATE("exp_nonpositive equals exp bit for bit, but is 0 where exp is subnormal", T,
                   float, double) {
  std::size_t different = 0;
  for (const T x : arguments<T>()) {
    if (x > T(0)) continue;
    const T y = exp_of(x);
    const T expected = y < std::numeric_limits<T>::min() ? T(0) : y;
    if (exp_nonpositive<T>(Vec<T>(x)).get(0) != expected) ++different;
  }
  CHECK(different == 0);
  CHECK(std::isnan(exp_nonpositive<T>(Vec<T>(std::numeric_limits<T>::quiet_NaN())).get(0)));
}
