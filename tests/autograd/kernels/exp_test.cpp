#include "autograd/kernels/exp.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

using namespace tapestry::kernels;

namespace {

/// Many numbers of both signs, and the limits of exp with their neighbors.
template <class T>
std::vector<T> arguments() {
  constexpr bool single = std::is_same_v<T, float>;
  const T range = single ? T(104) : T(746);
  constexpr int count = 200'000;
  std::vector<T> x;
  for (int i = -count; i <= count; ++i) x.push_back(range * static_cast<T>(i) / T(count));
  // From e^x subnormal to the next binades, where the exponent of a product may be too small.
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

TEST_CASE_TEMPLATE("exp_nonpositive has the bits of exp, but 0 where exp is subnormal", T, float,
                   double) {
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
