#include "autograd/gradcheck/tensor_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace tapestry;
using gradcheck_detail::compare;
using gradcheck_detail::Comparison;
using gradcheck_detail::detectable_error;
using gradcheck_detail::Thresholds;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr Thresholds by{.scale = 1e-8, .zero = 1e-12, .tolerance = 1e-6};

}  // namespace

TEST_CASE("a gradient that is not finite is wrong by an infinite error, whatever differences say") {
  for (const double analytic : {not_a_number, infinity, -infinity}) {
    for (const double numeric : {0.0, 1.0, not_a_number, infinity}) {
      const Comparison found = compare(analytic, {.value = numeric, .error = 1e-12}, by);
      CHECK(found.verdict == GradcheckVerdict::wrong);
      CHECK(found.relative_error == infinity);
    }
  }
}

TEST_CASE("differences that are not finite make a finite gradient wrong") {
  for (const double numeric : {not_a_number, infinity, -infinity}) {
    CHECK(compare(1.0, {.value = numeric, .error = not_a_number}, by).verdict ==
          GradcheckVerdict::wrong);
  }
}

TEST_CASE("the error of a small gradient is relative to it") {
  const Comparison found = compare(1.001e-4, {.value = 1e-4, .error = 1e-13}, by);
  CHECK(found.verdict == GradcheckVerdict::wrong);
  CHECK(found.relative_error == doctest::Approx(0.001 / 1.001));
}

TEST_CASE("errors of gradients smaller than the scale are relative to the scale") {
  CHECK(compare(1e-16, {.value = 2e-16, .error = 1e-18}, by).verdict == GradcheckVerdict::agrees);
}

TEST_CASE("a gradient is wrong if its error is at least 100 times that of the differences") {
  using enum GradcheckVerdict;
  const auto verdict = [](double error, double of_differences) {
    return compare(1.0, {.value = 1.0 + error, .error = of_differences}, by).verdict;
  };
  CHECK(verdict(0.9e-7, 1e-9) == agrees);
  CHECK(verdict(1.1e-7, 1e-9) == wrong);
  CHECK(verdict(0.9e-9, 1e-14) == agrees);
  CHECK(verdict(1.1e-9, 1e-14) == wrong);
  CHECK(detectable_error(1e-10, 1e-6) == doctest::Approx(1e-8));
  CHECK(detectable_error(1e-14, 1e-6) == 1e-9);
  CHECK(detectable_error(1e-7, 1e-6) == 1e-6);
  CHECK(detectable_error(1e-14, 1e-10) == 1e-10);
}

TEST_CASE("differences are conclusive up to 100 tolerances and wrong beyond ten errors") {
  using enum GradcheckVerdict;
  CHECK(compare(1.0, {.value = 1.0, .error = 0.9e-4}, by).verdict == agrees);
  CHECK(compare(1.0, {.value = 1.0, .error = 1.1e-4}, by).verdict == inconclusive);
  CHECK(compare(1.0, {.value = 1.0 + 0.9e-6, .error = 2e-8}, by).verdict == agrees);
  CHECK(compare(1.0, {.value = 1.0 + 1.1e-6, .error = 2e-8}, by).verdict == wrong);
  CHECK(compare(1.0, {.value = 1.0 + 1e-3, .error = 0.9e-4}, by).verdict == wrong);
  CHECK(compare(1.0, {.value = 1.0 + 1e-3, .error = 1.1e-4}, by).verdict == inconclusive);
  CHECK(compare(-1.0, {.value = 1.0, .error = 1e-9}, by).relative_error == 2.0);
}

TEST_CASE("a gradient below the rounding error is too small unless the differences contradict it") {
  using enum GradcheckVerdict;
  constexpr Thresholds tiny{.scale = 0.5e-12, .zero = 1e-12, .tolerance = 1e-6};
  const Comparison zero = compare(0.9e-12, {.value = 0.0, .error = 1e-13}, tiny);
  CHECK(zero.verdict == too_small);
  CHECK(zero.relative_error == 0.0);
  CHECK(compare(0.0, {.value = 0.0, .error = 1e-13}, tiny).verdict == agrees);
  CHECK(compare(0.0, {.value = 1e-14, .error = 1e-13}, tiny).verdict == too_small);
  CHECK(compare(-0.9e-12, {.value = 0.0, .error = 0.9e-8}, tiny).verdict == too_small);
  CHECK(compare(0.9e-12, {.value = 0.0, .error = 1.1e-8}, tiny).verdict == inconclusive);
  CHECK(compare(1.1e-12, {.value = 0.0, .error = 1e-12}, tiny).verdict == inconclusive);
  CHECK(compare(0.9e-12, {.value = 0.0, .error = 1e-14}, tiny).verdict == wrong);
  // Where the tensor's gradient is beyond rounding, a small element of it is not.
  CHECK(compare(0.9e-12, {.value = 0.0, .error = 1e-12}, by).verdict == inconclusive);
}

TEST_CASE("an estimate is good enough at 1/1000 of the tolerance, of the gradient or its scale") {
  CHECK(by.good_enough(2.0) == doctest::Approx(2e-9));
  CHECK(by.good_enough(-2.0) == doctest::Approx(2e-9));
  CHECK(by.good_enough(0.0) == doctest::Approx(1e-17).scale(0.0));
}

TEST_CASE("differences that are too inexact give inconclusive, however close they are") {
  CHECK(compare(1.0, {.value = 1.0, .error = 1e-3}, by).verdict == GradcheckVerdict::inconclusive);
}
