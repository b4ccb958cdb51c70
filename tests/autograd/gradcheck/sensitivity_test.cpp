// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "autograd/gradcheck/gradcheck.h"
#include "autograd/gradcheck/objectives.h"
#include "autograd/gradcheck/tensor_check.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/reductions.h"
#include "tests/autograd/gradcheck/faulty_operation.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;
using gradcheck_detail::compare;
using gradcheck_detail::Comparison;
using gradcheck_detail::detectable_error;
using gradcheck_detail::Line;
using gradcheck_detail::measured_noise;
using gradcheck_detail::Objectives;
using gradcheck_detail::Thresholds;

/// The smallest faults that the gradient check must find, and correct gradients of the same
/// functions, which it must not report as wrong.
namespace {

Spoil one_wrong(std::size_t place, double relative) {
  return [=](std::size_t i, double g) { return i == place ? (1.0 + relative) * g : g; };
}

Spoil all_wrong(double relative) {
  return [=](std::size_t, double g) { return (1.0 + relative) * g; };
}

/// Values in which element 17 is far smaller than the others. The gradient of its square is also
/// far smaller.
Tensor with_a_small_value(std::size_t size, double small) {
  Tensor x = random_leaf({size}, 1);
  x.mutable_values<double>()[17] = small;
  return x;
}

struct Fault {
  std::string what;
  Tensor x;
  Spoil spoil;
  bool scalar = false;  ///< whether the sum of the output is checked instead of its elements
};

std::vector<Fault> faults() {
  return {
      {"one of 40,000 values by 1e-4", random_leaf({200, 200}, 1), one_wrong(12345, 1e-4)},
      {"one of 40,000 values, scalar output", random_leaf({200, 200}, 1), one_wrong(12345, 1e-4),
       true},
      {"one of 1,000,000 by 5e-4", random_leaf({1000, 1000}, 1), one_wrong(765432, 5e-4)},
      {"one of 1,000,000 values, scalar output", random_leaf({1000, 1000}, 1),
       one_wrong(765432, 5e-4), true},
      {"3e-7 of the RMS, doubled", with_a_small_value(40, 3e-7), one_wrong(17, 1.0)},
      {"3e-8 of the RMS, doubled", with_a_small_value(40, 3e-8), one_wrong(17, 1.0)},
      {"all by 1e-7", random_leaf({50}, 1), all_wrong(1e-7)},
      {"all by 1e-8", random_leaf({50}, 1), all_wrong(1e-8)},
  };
}

}  // namespace

TEST_CASE("gradcheck finds small faults and accepts correct gradients of the same functions") {
  for (const Fault& fault : faults()) {
    CAPTURE(fault.what);
    const auto function = [&](const Spoil& spoil) {
      const Tensor y = square(faulty(fault.x, spoil));
      return fault.scalar ? sum(y) : y;
    };
    const GradcheckRow found = row_of([&] { return function(fault.spoil); }, fault.x);
    CAPTURE(found.worst_relative_error);
    CHECK(found.verdict == GradcheckVerdict::wrong);
    const GradcheckRow right = row_of([&] { return function(all_wrong(0.0)); }, fault.x);
    CAPTURE(right.worst_relative_error);
    CHECK(right.verdict == GradcheckVerdict::agrees);
  }
}

TEST_CASE(
    "a gradient that is 1e-14 times the others is reported as too small, whether wrong or "
    "correct") {
  const Tensor x = random_leaf({8}, 1), y = random_leaf({8}, 2);
  for (const double factor : {1.0, 3.0}) {
    const GradcheckReport report =
        gradcheck([&] { return sum(square(x)) + scale(sum(square(times(y, factor))), 1e-14); },
                  {{"x", x}, {"y", y}});
    CHECK(report.rows[0].verdict == GradcheckVerdict::agrees);
    const GradcheckRow& row = report.rows[1];
    CHECK(row.verdict == GradcheckVerdict::too_small);
    CHECK(row.gradient_norm < row.least_norm);
    CHECK(row.least_norm < 1e-10);
  }
}

TEST_CASE("a wrong gradient that is 1e-12 times the others does not agree") {
  const Tensor x = random_leaf({8}, 1), y = random_leaf({8}, 2);
  const GradcheckReport report =
      gradcheck([&] { return sum(square(x)) + scale(sum(square(times(y, 3.0))), 1e-12); },
                {{"x", x}, {"y", y}});
  CHECK(report.rows[1].verdict != GradcheckVerdict::agrees);
}

TEST_CASE("gradcheck measures the noise of the function, not only of the sum over its output") {
  Tensor x = random_leaf({6}, 1);
  const auto noise_of = [&](const std::function<Tensor()>& function) {
    const Objectives objectives([&] { return std::vector<NamedTensor>{{"", function()}}; }, 1);
    Line line(x.mutable_values<double>(), 0, std::vector<double>(6, 1.0));
    return measured_noise(line, 1e-3, objectives).at(0).value();
  };
  CHECK(noise_of([&] { return square(x); }) < 3e-15);
  // Each element is rounded to a multiple of 2^-29 = 1.9e-9.
  const Tensor ten_million = Tensor::full({6}, 1e7, DType::float64);
  const double noise = noise_of([&] { return (square(x) + ten_million) - ten_million; });
  CHECK(noise > 3e-10);
  CHECK(noise < 1e-8);
}

TEST_CASE("a correct gradient of a noisy function is not reported as wrong") {
  const Tensor x = random_leaf({6}, 1);
  for (const double large : {1e3, 1e5, 1e7}) {
    CAPTURE(large);
    const Tensor far = Tensor::full({6}, large, DType::float64);
    const GradcheckRow row = row_of([&] { return (square(x) + far) - far; }, x);
    CHECK(row.verdict != GradcheckVerdict::wrong);
  }
}

TEST_CASE(
    "gradcheck measures noise over longer steps if short steps change values less than rounding "
    "does") {
  // Values are multiples of 2^-52, and a step changes them by 1e-9 times its length.
  const Tensor one = Tensor::ones({6}, DType::float64);
  Tensor x = random_leaf({6}, 1);
  const Objectives objectives(
      [&] {
        return std::vector<NamedTensor>{{"", sum(scale(square(x), 1e-9) + one) - sum(one)}};
      },
      1);
  Line line(x.mutable_values<double>(), 0, std::vector<double>(6, 1.0));
  const double noise = measured_noise(line, 1e-3, objectives).at(0).value();
  CHECK(noise > 2e-17);
  CHECK(noise < 1e-15);
}

TEST_CASE(
    "if a loss is rounded to zero, correct gradients are too small and wrong gradients are wrong") {
  for (const double margin : {38.0, 40.0, 50.0, 700.0}) {
    CAPTURE(margin);
    Tensor x = Tensor::from({{margin, 0}, {0, margin}}, DType::float64);
    x.set_requires_grad(true);
    const auto verdict = [&](double added) {
      const Spoil spoil = [=](std::size_t, double g) { return g + added; };
      return row_of([&] { return cross_entropy(faulty(x, spoil), Ids{0, 1}).mean; }, x).verdict;
    };
    CHECK(verdict(0.0) == GradcheckVerdict::too_small);
    CHECK(verdict(1e-8) == GradcheckVerdict::wrong);
  }
}

TEST_CASE("gradcheck tells correct from wrong gradients of a loss close to zero") {
  const Ids classes{0, 1, 0};
  std::size_t found = 0;
  for (const double margin : {10.0, 14.0, 17.0, 20.0, 25.0}) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      CAPTURE(margin);
      CAPTURE(seed);
      const Tensor weight = random_leaf({2, 16}, seed), bias = Tensor::zeros({2}, DType::float64);
      Tensor(bias).set_requires_grad(true);
      // The logits of the correct classes are larger by about the margin.
      const Tensor apart = weight[0] - weight[1];
      const Tensor x = scale(Tensor::from({{1}, {-1}, {1}}, DType::float64), margin) *
                           (apart / sum(square(apart))) +
                       scale(random_leaf({3, 16}, seed + 1000), 0.1);
      const Tensor inputs = x.detach().to(DType::float64);
      const auto check = [&](const Spoil& spoil) {
        const auto loss = [&] {
          return cross_entropy(linear(inputs, faulty(weight, spoil), bias), classes).mean;
        };
        return gradcheck(loss, {{"weight", weight}, {"bias", bias}}, {.locate = false});
      };
      CHECK(check(all_wrong(0.0)).count(GradcheckVerdict::wrong) == 0);
      const GradcheckReport wrong = check(all_wrong(1.0));
      found += wrong.count(GradcheckVerdict::wrong);
      if (margin < 15.0) CHECK(wrong.rows[0].verdict == GradcheckVerdict::wrong);
    }
  }
  CHECK(found >= 150);
}

TEST_CASE("no correct gradient is reported as wrong, for any seed") {
  const Tensor x = random_leaf({5, 7}, 1), weight = random_leaf({3, 7}, 2);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const GradcheckReport report =
        gradcheck([&] { return sum(softmax(linear(exp(x), weight)) * linear(square(x), weight)); },
                  {{"x", x}, {"weight", weight}}, {.seed = seed});
    CHECK(report.count(GradcheckVerdict::agrees) == 2);
  }
}

namespace {

constexpr Thresholds by{.scale = 1e-8, .zero = 1e-12, .tolerance = 1e-6};

}  // namespace

TEST_CASE("a non-finite gradient is wrong with an infinite error, for any finite differences") {
  for (const double analytic : {not_a_number, inf, -inf}) {
    for (const double numeric : {0.0, 1.0, not_a_number, inf}) {
      const Comparison found = compare(analytic, {.value = numeric, .error = 1e-12}, by);
      CHECK(found.verdict == GradcheckVerdict::wrong);
      CHECK(found.relative_error == inf);
    }
  }
}

TEST_CASE("non-finite differences make a finite gradient wrong") {
  for (const double numeric : {not_a_number, inf, -inf}) {
    CHECK(compare(1.0, {.value = numeric, .error = not_a_number}, by).verdict ==
          GradcheckVerdict::wrong);
  }
}

TEST_CASE("the error of a small gradient is relative to the gradient") {
  const Comparison found = compare(1.001e-4, {.value = 1e-4, .error = 1e-13}, by);
  CHECK(found.verdict == GradcheckVerdict::wrong);
  CHECK(found.relative_error == doctest::Approx(0.001 / 1.001));
}

TEST_CASE("errors of gradients smaller than the scale are relative to the scale") {
  CHECK(compare(1e-16, {.value = 2e-16, .error = 1e-18}, by).verdict == GradcheckVerdict::agrees);
}

TEST_CASE("a gradient is wrong if its error is at least 100 times the error of the differences") {
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

TEST_CASE("differences with an error above 100 times the tolerance are inconclusive") {
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
  // A small element does not count as too small if the tensor's gradient exceeds the rounding
  // error.
  CHECK(compare(0.9e-12, {.value = 0.0, .error = 1e-12}, by).verdict == inconclusive);
}

TEST_CASE("an estimate is good enough if its error is below 1/1000 of the tolerance") {
  CHECK(by.good_enough(2.0) == doctest::Approx(2e-9));
  CHECK(by.good_enough(-2.0) == doctest::Approx(2e-9));
  CHECK(by.good_enough(0.0) == doctest::Approx(1e-17).scale(0.0));
}
