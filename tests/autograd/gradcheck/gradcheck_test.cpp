// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/gradcheck/gradcheck.h"
#include "autograd/frozen_branches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/gradcheck/coordinates.h"
#include "autograd/operation.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "tests/autograd/gradcheck/faulty_operation.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;
using gradcheck_detail::coordinates_to_check;

namespace {

/// |x|, which does not use FrozenBranches.
struct AbsoluteValue {
  static constexpr const char* name = "absolute_value";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    std::vector<double> y = values_of(x);
    for (double& value : y) value = std::abs(value);
    return Tensor::from(x.shape(), y, DType::float64);
  }
  void backward(const Tensor& dy, Gradient dx) const {
    const auto g = dy.values<double>();
    const kernels::Target<double> out = dx.target<double>();
    for (std::size_t i = 0; i < g.size(); ++i) out.put(i, x.values<double>()[i] < 0 ? -g[i] : g[i]);
  }
};

/// The identity with a gradient of 3 dy, which it computes in the memory of dy without
/// mutable_values().
struct InPlace {
  static constexpr const char* name = "in_place";

  Tensor forward(const Tensor& x) { return x.detach().to(DType::float64); }
  void backward(const Tensor& dy, Gradient dx) const {
    const std::span g(reinterpret_cast<double*>(dy.memory().data() + dy.byte_offset()), dy.size());
    for (double& value : g) value *= 3.0;
    dx.add(dy);
  }
};

Spoil by_factor(double factor) {
  return [factor](std::size_t, double g) { return factor * g; };
}

/// Replaces gradient 3 with NaN and leaves the other gradients unchanged.
double spoil_third(std::size_t i, double g) {
  return i == 3 ? std::numeric_limits<double>::quiet_NaN() : g;
}

/// The row that gradcheck reports for the softmax of n values with wrong gradients.
GradcheckRow row_with(const Spoil& spoil, std::size_t n = 6, const GradcheckOptions& options = {}) {
  const Tensor x = random_leaf({n}, 1);
  return row_of([&] { return softmax(faulty(x, spoil)); }, x, options);
}

void check_is_caught(const GradcheckRow& row) {
  CHECK(row.worst_relative_error > 1e-4);
  CHECK(row.verdict == GradcheckVerdict::wrong);
}

}  // namespace

TEST_CASE("gradcheck catches zeros, wrong signs, small factors, and NaN outside of the sample") {
  for (const double factor : {0.0, -1.0, 1.001}) check_is_caught(row_with(by_factor(factor)));
  check_is_caught(row_with(spoil_third));
  check_is_caught(row_with(spoil_third, 5000, {.max_coordinates = 1}));
  // This gradient is correct if the upstream gradients are positive.
  const Tensor x = random_leaf({16}, 1);
  check_is_caught(
      row_of([&] { return faulty(x, [](std::size_t, double g) { return std::abs(g); }); }, x));
  for (const double error : {1e-4, 3e-6}) {
    const GradcheckRow row = row_with(by_factor(1.0 + error));
    CHECK(row.worst_relative_error == doctest::Approx(error).epsilon(0.1));
    CHECK(row.verdict == GradcheckVerdict::wrong);
  }
}

TEST_CASE("gradcheck names an operation that writes to the memory of dL/dy") {
  const Tensor x = random_leaf({6}, 1);
  check_error<ValueError>("in_place:|backward has changed the values of dL/dy", [&] {
    gradient_error([&] { return square(apply(InPlace{}, x)); }, {x});
  });
}

TEST_CASE("gradcheck fails if all comparisons are inconclusive or too small") {
  const Tensor at_kinks = Tensor::zeros({3}, DType::float64).set_requires_grad(true);
  const Tensor x = random_leaf({3}, 1);
  const GradcheckReport nothing = gradcheck([&] { return relu(at_kinks); }, {{"x", at_kinks}});
  CHECK(nothing.rows[0].verdict == GradcheckVerdict::inconclusive);
  CHECK(nothing.worst_relative_error() == std::numeric_limits<double>::infinity());
  CHECK_FALSE(nothing.passed());
  CHECK(
      to_string(nothing).find("no gradient could be checked: all comparisons are inconclusive\n") !=
      std::string::npos);
  const GradcheckReport half =
      gradcheck([&] { return relu(at_kinks) + x; }, {{"kinks", at_kinks}, {"x", x}});
  CHECK(half.passed());
  CHECK(half.worst_relative_error() == std::numeric_limits<double>::infinity());
  CHECK(to_string(half).find("no gradient could be checked") == std::string::npos);
}

TEST_CASE("a report passes if no row is wrong and at least one comparison is conclusive") {
  using enum GradcheckVerdict;
  const auto passed = [](std::initializer_list<GradcheckVerdict> verdicts) {
    GradcheckReport report;
    for (const GradcheckVerdict verdict : verdicts) report.rows.push_back({.verdict = verdict});
    return report.passed();
  };
  CHECK(passed({}));
  CHECK(passed({agrees, agrees}));
  CHECK(passed({agrees, inconclusive}));
  CHECK(passed({agrees, too_small}));
  CHECK_FALSE(passed({too_small, inconclusive}));
  GradcheckReport small;
  small.rows.push_back({.directions = {.checked = 3}, .verdict = too_small});
  CHECK_FALSE(small.passed());
  CHECK_FALSE(passed({inconclusive, inconclusive}));
  CHECK_FALSE(passed({agrees, wrong}));
  CHECK_FALSE(passed({wrong}));
  GradcheckReport partly;
  partly.rows.push_back({.directions = {.checked = 2, .inconclusive = 2}, .verdict = inconclusive});
  CHECK_FALSE(partly.passed());
  partly.rows[0].coordinates = {.checked = 3, .inconclusive = 2};
  CHECK(partly.passed());
}

TEST_CASE("gradcheck counts and names its verdicts") {
  const Tensor x = random_leaf({6}, 1);
  const Tensor y = random_leaf({6}, 2);
  const NamedTensor named[] = {{"x", x}, {"y", y}};
  const GradcheckReport report = gradcheck([&] { return softmax(times(x, -1.0)) * y; }, named);
  CHECK(report.count(GradcheckVerdict::wrong) == 1);
  CHECK(report.count(GradcheckVerdict::agrees) == 1);
  CHECK(report.count(GradcheckVerdict::inconclusive) == 0);
  CHECK(std::string(name(GradcheckVerdict::wrong)) == "wrong");
  CHECK(std::string(name(GradcheckVerdict::too_small)) == "too small");
}

TEST_CASE("gradcheck freezes the branches of relu and max, even very close to their kinks") {
  const Tensor x =
      Tensor::from({2, 4}, {1e-9, -1e-9, 1.0, -1.0, 2e-9, -2.0, 1.0 + 1e-9, 2.0}, DType::float64)
          .set_requires_grad(true);
  const RandomStream stream = RandomStream(1).named("dropout");
  CHECK(gradient_error([&] { return relu(x); }, {x}) < 1e-9);
  CHECK(gradient_error([&] { return relu_dropout(x, 0.3, stream); }, {x}) < 1e-9);
  CHECK(gradient_error([&] { return square(max(x, {0})); }, {x}) < 1e-9);
}

TEST_CASE("gradcheck uses shorter steps near the kink of a custom operation") {
  const Tensor x =
      Tensor::from({4}, {1e-4, -1e-4, 1.0, -1.0}, DType::float64).set_requires_grad(true);
  CHECK(gradient_error([&] { return apply(AbsoluteValue{}, x); }, {x}) < 1e-6);
  // These values are so close to the kink that only the shortest steps stay on one side.
  const Tensor nearer = Tensor::from({2}, {1e-5, -1e-5}, DType::float64).set_requires_grad(true);
  CHECK(gradient_error([&] { return apply(AbsoluteValue{}, nearer); }, {nearer}) < 1e-6);
}

TEST_CASE("gradcheck rejects a function whose value changes when branches are frozen") {
  const Tensor x = random_leaf({6}, 1);
  const auto two_faced = [&] {
    return execution_context().frozen_branches == nullptr ? relu(x) : square(x);
  };
  CHECK_THROWS_AS(gradient_error(two_faced, {x}), ValueError);
}

TEST_CASE("gradcheck accepts a zero gradient if finite differences are only rounding errors") {
  const Tensor x = random_leaf({6}, 1);
  const Tensor shift = Tensor::scalar(0.3, DType::float64).set_requires_grad(true);
  const NamedTensor named[] = {{"x", x}, {"shift", shift}};
  const GradcheckReport report = gradcheck([&] { return softmax(x + shift); }, named);
  CHECK(report.rows[0].verdict == GradcheckVerdict::agrees);
  CHECK(report.rows[1].verdict != GradcheckVerdict::wrong);
}

TEST_CASE("gradcheck catches NaN in the output") {
  Tensor x = Tensor::from({2}, {1.0, std::numeric_limits<double>::quiet_NaN()}, DType::float64);
  x.set_requires_grad(true);
  CHECK(gradient_error([&] { return square(x); }, {x}) > 1e-4);
}

TEST_CASE("gradcheck reports each tensor with its name, shape, norm and worst coordinate") {
  const Tensor x = Tensor::scalar(3.0, DType::float64).set_requires_grad(true);
  const Tensor other = Tensor::full({2}, 1.0, DType::float64).set_requires_grad(true);
  const NamedTensor named[] = {{"x", x}, {"other", other}};
  const GradcheckReport report = gradcheck([&] { return square(x); }, named);
  REQUIRE(report.rows.size() == 2);
  const GradcheckRow& row = report.rows[0];
  CHECK(row.name == "x");
  CHECK(row.shape == Shape{});
  CHECK(row.has_gradient);
  CHECK(row.coordinates.checked == 1);
  CHECK(row.gradient_norm == doctest::Approx(6.0));
  CHECK(row.analytic == doctest::Approx(6.0));
  CHECK(row.numeric == doctest::Approx(row.analytic).epsilon(1e-9));
  CHECK(report.rows[1].name == "other");
  CHECK_FALSE(report.rows[1].has_gradient);
  CHECK(report.rows[1].gradient_norm == 0.0);
  CHECK(report.rows[1].worst_relative_error == 0.0);
}

TEST_CASE("the norm of a gradient is positive for random weights of either sign") {
  const Tensor x = Tensor::scalar(3.0, DType::float64).set_requires_grad(true);
  const NamedTensor named[] = {{"x", x}};
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const auto report = gradcheck([&] { return square(x); }, named, {.seed = seed});
    CHECK(report.rows.at(0).gradient_norm == doctest::Approx(6.0));
    // The signs of the analytic and numeric gradients do not depend on the weight either.
    const auto at_coordinates =
        gradcheck([&] { return square(x); }, named, {.directions = 0, .seed = seed});
    CHECK(at_coordinates.rows.at(0).analytic == doctest::Approx(6.0));
    CHECK(at_coordinates.rows.at(0).numeric == doctest::Approx(6.0));
  }
}

TEST_CASE("the worst error of a report is the maximum over all rows") {
  GradcheckReport report;
  CHECK(report.worst_relative_error() == 0.0);
  for (const double error : {0.25, 0.5, 0.125}) {
    report.rows.push_back({.worst_relative_error = error});
  }
  CHECK(report.worst_relative_error() == 0.5);
}

TEST_CASE(
    "gradcheck samples coordinates of large tensors and checks all coordinates of small tensors") {
  const Tensor small = random_leaf({64}, 1);
  const Tensor large = random_leaf({65}, 2);
  const NamedTensor named[] = {{"small", small}, {"large", large}};
  CHECK(gradcheck([&] { return square(small); }, named).rows[0].coordinates.checked == 64);
  CHECK(gradcheck([&] { return square(large); }, named).rows[1].coordinates.checked == 64);
  const GradcheckOptions all = {.max_coordinates = 1000};
  CHECK(gradcheck([&] { return square(large); }, named, all).rows[1].coordinates.checked == 65);
}

TEST_CASE("gradcheck restores values exactly and clears gradients") {
  const Tensor x = random_leaf({5}, 1);
  const std::vector<double> before = values_of(x);
  gradient_error([&] { return exp(x); }, {x});
  CHECK(values_of(x) == before);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("gradcheck ignores existing gradients") {
  const Tensor x = random_leaf({5}, 1);
  {
    Tape tape;
    tape.backward(square(x), Tensor::full({5}, 7.0, DType::float64));
  }
  CHECK(gradient_error([&] { return square(x); }, {x}) < 1e-9);
}

TEST_CASE("gradcheck records nothing on a tape that is active when it is called") {
  const Tensor x = random_leaf({5}, 1);
  const Tape tape;
  CHECK(gradient_error([&] { return square(x); }, {x}) < 1e-9);
  CHECK(tape.size() == 0);
}

TEST_CASE("gradcheck accepts a function that returns its input, or an empty tensor") {
  const Tensor x = random_leaf({5}, 1);
  CHECK(gradient_error([&] { return x; }, {x}) < 1e-9);
  const Tensor none = Tensor::zeros({0}, DType::float64).set_requires_grad(true);
  CHECK(gradient_error([&] { return square(none); }, {none}) == 0.0);
}

TEST_CASE(
    "gradcheck rejects float32 tensors and tensors that require no gradient, and names them") {
  const auto check = [](const Tensor& x) {
    const NamedTensor named[] = {{"encoder.weight", x}};
    gradcheck([&] { return square(x); }, named);
  };
  check_error<DTypeError>("gradcheck:|`encoder.weight`|float32|float64", [&] {
    check(Tensor::zeros({2}, DType::float32).set_requires_grad(true));
  });
  check_error<ValueError>("gradcheck:|`encoder.weight`",
                          [&] { check(Tensor::zeros({2}, DType::float64)); });
}

TEST_CASE("gradcheck finds one wrong value at every position in a tensor of odd size") {
  for (const std::size_t size : {std::size_t{2}, std::size_t{7}, std::size_t{101}}) {
    const Tensor x = random_leaf({size}, 1);
    for (std::size_t place = 0; place < size; place += size == 101 ? 25 : 1) {
      CAPTURE(size);
      CAPTURE(place);
      const auto one_wrong = [&](std::size_t i, double g) { return i == place ? 1.01 * g : g; };
      const GradcheckRow row =
          row_of([&] { return faulty(square(x), one_wrong); }, x, {.max_coordinates = 0});
      CHECK(row.verdict == GradcheckVerdict::wrong);
      CHECK(row.worst_coordinate == place);
    }
  }
}

TEST_CASE("gradcheck reports a wrong coordinate even if later directions have larger errors") {
  const Tensor x = random_leaf({2}, 1);
  const auto both_wrong = [](std::size_t i, double g) { return i == 0 ? 1.001 * g : 3.0 * g; };
  const GradcheckRow row =
      row_of([&] { return faulty(square(x), both_wrong); }, x, {.max_coordinates = 0});
  CHECK(row.directions.checked > 1);
  CHECK(row.coordinates.checked == 1);
  CHECK(row.worst_coordinate == 0);
  CHECK(row.analytic == doctest::Approx(1.001 * row.numeric).epsilon(1e-6));
}

TEST_CASE("a coordinate at a kink is inconclusive, and so is its tensor") {
  const Tensor x = Tensor::from({3}, {1.0, 0.0, -1.0}, DType::float64).set_requires_grad(true);
  const GradcheckRow row = row_of([&] { return relu(x); }, x, {.directions = 0});
  CHECK(row.verdict == GradcheckVerdict::inconclusive);
  CHECK(row.coordinates.inconclusive == 1);
  CHECK(row.inconclusive_coordinate == 1);
  CHECK(row.worst_relative_error < 1e-9);
}

TEST_CASE("at a kink neither the mean of both slopes nor 0 agrees with the differences") {
  const Tensor x = Tensor::zeros({3}, DType::float64).set_requires_grad(true);
  const auto half = [](std::size_t, double) { return 0.5; };
  const auto none = [](std::size_t, double) { return 0.0; };
  for (const auto& spoil : {std::function<double(std::size_t, double)>(half), {none}}) {
    const GradcheckRow row = row_of([&] { return relu(faulty(x, spoil)); }, x);
    CHECK(row.verdict == GradcheckVerdict::inconclusive);
    CHECK(row.coordinates.inconclusive == 3);
  }
}

TEST_CASE("differences across the end of the domain are inconclusive; shorter steps may agree") {
  const Tensor at_the_end = Tensor::full({1}, 1e-9, DType::float64).set_requires_grad(true);
  CHECK(row_of([&] { return sqrt(at_the_end); }, at_the_end).verdict ==
        GradcheckVerdict::inconclusive);
  const Tensor near = Tensor::full({1}, 5e-4, DType::float64).set_requires_grad(true);
  CHECK(row_of([&] { return sqrt(near); }, near).verdict == GradcheckVerdict::agrees);
}

TEST_CASE("random directions are inconclusive if all of them cross a kink") {
  const Tensor x = Tensor::from({3}, {1.0, 0.0, -1.0}, DType::float64).set_requires_grad(true);
  const GradcheckRow row =
      row_of([&] { return relu(x); }, x, {.directions = 2, .max_coordinates = 0});
  CHECK(row.verdict == GradcheckVerdict::inconclusive);
  CHECK(row.directions.checked == 4);  // all replacements were inconclusive
  CHECK(row.directions.inconclusive == 4);
}

TEST_CASE(
    "a gradient is wrong, not inconclusive, if its error is 100 times the differences' error") {
  // Over the shortest steps, exp(40 x) grows by a factor of e: differences are accurate to about
  // 3e-6.
  const Tensor x = Tensor::full({4}, 0.1, DType::float64).set_requires_grad(true);
  for (const double error : {1e-3, 3e-4}) {
    const auto steep = [&] { return times(exp(scale(x, 40.0)), 1.0 + error); };
    const GradcheckRow row = row_of(steep, x, {.step = 6.4});
    CHECK(row.verdict == GradcheckVerdict::wrong);
    CHECK(row.factor == doctest::Approx(1.0 + error).epsilon(0.1 * error));
  }
}

TEST_CASE("cosine and factor compare the analytic with the numeric gradient") {
  const Tensor x = random_leaf({8}, 1);
  const GradcheckRow half = row_of([&] { return times(square(x), 0.5); }, x);
  CHECK(half.cosine == doctest::Approx(1.0));
  CHECK(half.factor == doctest::Approx(0.5));
  const GradcheckRow opposite = row_of([&] { return times(square(x), -1.0); }, x);
  CHECK(opposite.cosine == doctest::Approx(-1.0));
  CHECK(opposite.factor == doctest::Approx(-1.0));
}

TEST_CASE("a report for several outputs has a row for each output and tensor, ordered by output") {
  const Tensor x = random_leaf({4}, 1), y = random_leaf({2, 3}, 2), z = random_leaf({3}, 3);
  const NamedTensor named[] = {{"x", x}, {"y", y}, {"z", z}};
  const auto report = gradcheck_outputs(
      [&] {
        return std::vector<NamedTensor>{{"first", sum(square(x)) + sum(z)},
                                        {"second", sum(exp(y)) + sum(times(exp(z), 2.0))}};
      },
      named);
  REQUIRE(report.rows.size() == 6);
  const Shape shapes[] = {{4}, {2, 3}, {3}};
  for (std::size_t i = 0; i < 6; ++i) {
    const GradcheckRow& row = report.rows[i];
    CHECK(row.output == (i < 3 ? "first" : "second"));
    CHECK(row.name == named[i % 3].name);
    CHECK(row.shape == shapes[i % 3]);
    CHECK(row.has_gradient == (i == 0 || i == 2 || i == 4 || i == 5));
    CHECK((row.verdict == GradcheckVerdict::wrong) == (i == 5));
  }
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->operation == "faulty");
}

TEST_CASE("a missing gradient is wrong if the output depends on the tensor") {
  const Tensor x = random_leaf({4}, 1);
  const auto cut_off = [&] {
    return square(x.detach().to(DType::float64).set_requires_grad(true));
  };
  const GradcheckRow row = row_of(cut_off, x);
  CHECK_FALSE(row.has_gradient);
  CHECK(row.verdict == GradcheckVerdict::wrong);
}

TEST_CASE("a gradient below the rounding error is reported as zero") {
  const Tensor x = random_leaf({4}, 1);
  const auto nothing = [&] { return sum(x) - sum(x); };
  const GradcheckRow row = row_of(nothing, x);
  CHECK(row.zero);
  CHECK(row.verdict == GradcheckVerdict::agrees);  // both gradients are exactly 0
  CHECK_FALSE(row_of([&] { return square(x); }, x).zero);
}

TEST_CASE("gradcheck restores values if the function throws") {
  const Tensor x = random_leaf({4}, 1);
  const std::vector<double> before = values_of(x);
  int calls = 0;
  const auto breaks_off = [&]() -> Tensor {
    if (++calls > 6) throw std::runtime_error("enough");
    return square(x);
  };
  CHECK_THROWS_AS(row_of(breaks_off, x), std::runtime_error);
  CHECK(values_of(x) == before);
}

TEST_CASE("a tensor without any comparison is inconclusive") {
  const Tensor x = random_leaf({4}, 1);
  const GradcheckRow row =
      row_of([&] { return square(x); }, x, {.directions = 0, .max_coordinates = 0});
  CHECK(row.verdict == GradcheckVerdict::inconclusive);
  CHECK_FALSE(row.worst_coordinate);
}

TEST_CASE("gradcheck rejects invalid options, missing outputs and outputs that change shape") {
  const Tensor x = random_leaf({4}, 1);
  check_error<ValueError>("gradcheck:|0",
                          [&] { row_of([&] { return square(x); }, x, {.step = 0.0}); });
  check_error<ValueError>("gradcheck:|-1|0",
                          [&] { row_of([&] { return square(x); }, x, {.tolerance = -1.0}); });
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(row_of([&] { return square(x); }, x, {.step = bad}), ValueError);
    CHECK_THROWS_AS(row_of([&] { return square(x); }, x, {.tolerance = bad}), ValueError);
  }
  CHECK_THROWS_AS(row_of([&] { return square(x); }, x, {.tolerance = 0.0}), ValueError);
  const NamedTensor named[] = {{"x", x}};
  check_error<ValueError>("gradcheck:|the function returned no outputs", [&] {
    gradcheck_outputs([] { return std::vector<NamedTensor>{}; }, named);
  });
  int calls = 0;
  const auto grows = [&] { return ++calls > 4 ? sum(square(x)) : square(x); };
  check_error<ShapeError>("gradcheck:|(4)", [&] { row_of(grows, x); });
}

TEST_CASE("gradcheck rejects a function that gives different values for the same input") {
  const Tensor x = random_leaf({4}, 1);
  double drift = 0.0;
  const auto restless = [&] {
    return square(x) + Tensor::full({4}, drift += 1e-12, DType::float64);
  };
  check_error<ValueError>("gradcheck:|the function returned different values when",
                          [&] { row_of(restless, x); });
}

namespace {

using Coordinates = std::vector<std::size_t>;

Coordinates chosen(const std::vector<double>& gradient, std::size_t most) {
  const std::span<const double> gradients[] = {gradient};
  return coordinates_to_check(gradient.size(), most, gradients, RandomStream(1));
}

bool contains(const Coordinates& list, std::size_t i) {
  return std::ranges::find(list, i) != list.end();
}

}  // namespace

TEST_CASE("gradcheck checks all coordinates of a small tensor") {
  CHECK(chosen({3, 1, 2}, 3) == Coordinates{0, 1, 2});
  CHECK(chosen({}, 3).empty());
}

TEST_CASE("gradcheck samples the largest gradients of a large tensor, of either sign, NaN first") {
  std::vector<double> gradient(100, 1.0);
  gradient[17] = -7.0;
  gradient[80] = 6.0;
  const Coordinates some = chosen(gradient, 8);
  CHECK(some.size() == 8);
  CHECK(contains(some, 17));
  CHECK(contains(some, 80));
  gradient[33] = std::numeric_limits<double>::quiet_NaN();
  CHECK(contains(chosen(gradient, 4), 33));
}

TEST_CASE("gradcheck samples exact zeros of a large tensor") {
  std::vector<double> gradient(1000, 1.0);
  gradient[900] = 0.0;
  CHECK(contains(chosen(gradient, 4), 900));
}

TEST_CASE("the sample of coordinates has no repeats, is sorted, and depends on the stream") {
  const std::vector<double> gradient(500, 1.0);
  const std::span<const double> gradients[] = {gradient, {}};
  const auto with = [&](std::uint64_t seed) {
    return coordinates_to_check(500, 16, gradients, RandomStream(seed));
  };
  const Coordinates some = with(1);
  CHECK(some.size() == 16);
  CHECK(std::ranges::is_sorted(some));
  CHECK(std::ranges::adjacent_find(some) == some.end());
  CHECK(some == with(1));
  CHECK(some != with(2));
  CHECK(coordinates_to_check(500, 0, gradients, RandomStream(1)).empty());
}
