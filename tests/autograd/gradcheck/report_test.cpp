// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/gradcheck/gradcheck.h"
#include "autograd/gradcheck/tensor_check.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/shape_ops.h"
#include "tests/autograd/gradcheck/faulty_operation.h"
#include "tests/support/contains.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;
using gradcheck_detail::explanation;
using gradcheck_detail::format_place;
using tapestry::test::contains;

namespace {

GradcheckRow wrong_by(double factor) {
  return {.name = "x",
          .shape = {3, 5},
          .gradient_norm = 1.0,
          .worst_relative_error = 0.5,
          .worst_coordinate = 7,
          .analytic = factor,
          .numeric = 1.0,
          .cosine = factor < 0 ? -1.0 : 1.0,
          .factor = factor,
          .verdict = GradcheckVerdict::wrong};
}

}  // namespace

TEST_CASE("a position is printed as its indices") {
  CHECK(format_place({3, 5}, 7) == "[1, 2]");
  CHECK(format_place({}, 0) == "[]");
  CHECK(format_place({3, 5}, std::nullopt) == "a direction");
  CHECK(format_place({0, 5}, 0) == "");
}

TEST_CASE("a wrong gradient is explained with its position and both values") {
  CHECK(
      explanation(wrong_by(-1.0)) ==
      "the gradient is -1 times the correct gradient: its sign is wrong; at [1, 2] backward gives "
      "-1, finite differences give 1");
}

TEST_CASE("a report names the likely cause of a factor that is a length, a size, two or a half") {
  CHECK(contains(explanation(wrong_by(5.0)), "axis 1 has length 5: a division by it is missing"));
  CHECK(contains(explanation(wrong_by(1.0 / 3.0)),
                 "axis 0 has length 3: there is an extra division by it"));
  CHECK(contains(explanation(wrong_by(15.0)), "a division by the size 15 is missing"));
  CHECK(contains(explanation(wrong_by(1.0 / 15.0)), "an extra division by the size 15"));
  CHECK(contains(explanation(wrong_by(2.0)), "counted twice"));
  CHECK(contains(explanation(wrong_by(0.5)), "one of two contributions"));
  CHECK(contains(explanation(wrong_by(1.001)), "1.001 times the correct gradient: a factor"));
}

TEST_CASE("the report distinguishes zero, missing, non-finite and non-parallel gradients") {
  GradcheckRow row = wrong_by(0.0);
  row.gradient_norm = 0.0;
  CHECK(
      contains(explanation(row), "the gradient is all zero, but the output depends on the tensor"));
  row.has_gradient = false;
  CHECK(contains(explanation(row),
                 "the gradient is missing, but the output depends on the tensor; "));
  row = wrong_by(1.00001);
  row.cosine = 0.99999;
  CHECK(contains(explanation(row),
                 "the gradient is correct except for small or isolated errors; at"));
  row = wrong_by(0.9);
  row.cosine = 0.8;
  CHECK(contains(explanation(row), "not a multiple of the correct gradient (cosine 0.8)"));
  row.worst_relative_error = std::numeric_limits<double>::infinity();
  CHECK(contains(explanation(row), "the gradient is not finite"));
}

TEST_CASE(
    "the report of a gradient that is wrong along a direction has no cosine if no coordinate is "
    "conclusive") {
  GradcheckReport report;
  report.rows = {wrong_by(1.0)};
  report.rows[0].cosine = report.rows[0].factor = std::nan("");
  report.rows[0].worst_coordinate = std::nullopt;
  const std::string text = to_string(report);
  CHECK(contains(text,
                 "wrong: x: the gradient is different from finite differences (single coordinates "
                 "are inconclusive); along a random direction"));
  CHECK(!contains(text, "nan"));
  CHECK(contains(text, "\n1 gradient: 0 agree, 1 wrong, 0 inconclusive;"));
}

TEST_CASE("the report lists every tensor, tensors without a gradient, and the wrong operation") {
  const Tensor x = random_leaf({2, 3}, 1);
  const Tensor other = random_leaf({2}, 2);
  const NamedTensor named[] = {{"x", x}, {"other", other}};
  const std::string text = to_string(gradcheck([&] { return times(square(x), -1.0); }, named));
  CHECK(text.starts_with("tensor  shape "));
  CHECK(contains(text, "\nx       (2, 3) "));
  CHECK(contains(text, "without a gradient:\n  other\n"));
  CHECK(
      contains(text, "wrong: x: the gradient is -1 times the correct gradient: its sign is wrong"));
  CHECK(contains(text,
                 "first wrong operation: faulty (number 2 of 2 recorded), outside of layers, "
                 "inputs (2, 3)\n  input 1: the gradient is -1 times"));
  CHECK(
      text.ends_with("2 gradients: 1 agree, 1 wrong, 0 inconclusive; worst relative error "
                     "2.0e+00\n"));
}

TEST_CASE("the report names the first wrong operation's number, layer, inputs and wrong row") {
  GradcheckReport report;
  report.rows = {wrong_by(3.0), wrong_by(1.0)};
  report.rows[0].worst_relative_error = 0.25;
  report.rows[1].verdict = GradcheckVerdict::agrees;
  report.first_wrong = FaultyOperation{
      .index = 6,
      .recorded = 12,
      .operation = "mul",
      .layer_path = "encoder.norm",
      .inputs = {{2, 3}, {}, {3}},
      .wrong_inputs = {{.input = 1, .row = wrong_by(5.0)}, {.input = 2, .row = wrong_by(7.0)}}};
  CHECK(to_string(report).ends_with(
      "\nwrong: x: " + explanation(report.rows[0]) +
      "\nfirst wrong operation: mul (number 7 of 12 recorded), in encoder.norm, inputs (2, 3), (), "
      "(3)\n  input 2: " +
      explanation(wrong_by(5.0)) + "\n  input 3: " + explanation(wrong_by(7.0)) +
      "\n2 gradients: 1 agree, 1 wrong, 0 inconclusive; worst relative error 5.0e-01\n"));
}

TEST_CASE("the report lists zero gradients and missing gradients separately") {
  GradcheckReport report;
  report.rows = {wrong_by(1.0), wrong_by(1.0), wrong_by(1.0)};
  for (GradcheckRow& row : report.rows) row.verdict = GradcheckVerdict::agrees;
  report.rows[0].name = "near";
  report.rows[0].zero = true;
  report.rows[1].name = "far";
  report.rows[1].zero = true;
  report.rows[1].has_gradient = false;
  report.rows[1].output = "loss";
  report.rows[0].has_gradient = report.rows[2].has_gradient = true;
  CHECK(contains(to_string(report),
                 "\nwithout a gradient:\n  far (of loss)\nzero everywhere:\n  near\n"
                 "3 gradients: 3 agree, "));
}

TEST_CASE(
    "the report lists norms too small to distinguish from zero, with the smallest distinct norm") {
  GradcheckReport report;
  report.rows = {wrong_by(1.0), wrong_by(1.0)};
  report.rows[0].verdict = GradcheckVerdict::agrees;
  report.rows[1].verdict = GradcheckVerdict::too_small;
  report.rows[1].name = "k_proj.bias";
  report.rows[1].zero = true;
  report.rows[1].gradient_norm = 2e-17;
  report.rows[1].least_norm = 3e-13;
  CHECK(contains(
      to_string(report),
      "\nnot distinguishable from zero (zero, or below the rounding error):\n  k_proj.bias: norm "
      "2.0e-17; norms below 3.0e-13 cannot be distinguished from zero\n"
      "2 gradients: 1 agree, 1 too small, 0 wrong, 0 inconclusive; "));
  CHECK_FALSE(contains(to_string(report), "zero everywhere"));
  report.rows.erase(report.rows.begin());
  CHECK(contains(to_string(report),
                 "no gradient could be checked: all are inconclusive or below the rounding error"));
}

TEST_CASE("a report without a wrong operation suggests other causes") {
  GradcheckReport report;
  report.rows = {wrong_by(0.5)};
  CHECK(contains(to_string(report),
                 "every operation is correct when checked separately: look for values that leave "
                 "the tape "));
  CHECK(contains(to_string(report),
                 "; then check how contributions to one gradient are added, and look for values"));
  report.rows[0].verdict = GradcheckVerdict::inconclusive;
  report.rows[0].coordinates = {.checked = 15, .inconclusive = 1};
  report.rows[0].inconclusive_coordinate = 4;
  const std::string text = to_string(report);
  CHECK_FALSE(contains(text, "every operation passes"));
  CHECK(contains(text,
                 "inconclusive (a kink or cancellation):\n  x: 1 of 15 comparisons, such "
                 "as at [0, 4]\n"));
}

TEST_CASE("the count of inconclusive comparisons includes coordinates and directions") {
  GradcheckReport report;
  report.rows = {wrong_by(1.0), wrong_by(1.0), wrong_by(1.0)};
  for (GradcheckRow& row : report.rows) row.verdict = GradcheckVerdict::inconclusive;
  report.rows[0].coordinates = {.checked = 15, .inconclusive = 2};
  report.rows[0].directions = {.checked = 6, .inconclusive = 3};
  report.rows[0].inconclusive_coordinate = 14;
  report.rows[1].name = "y";
  report.rows[1].directions = {.checked = 4, .inconclusive = 4};
  report.rows[2].name = "z";
  report.rows[2].coordinates = {.checked = 15, .inconclusive = 0};
  const std::string text = to_string(report);
  CHECK(contains(text,
                 "inconclusive (a kink or cancellation):\n"
                 "  x: 5 of 21 comparisons, such as at [2, 4]\n"
                 "  y: 4 of 4 comparisons\n"
                 "3 gradients: 0 agree, 0 wrong, 3 inconclusive; worst relative error 5.0e-01\n"));
}

TEST_CASE("each output has a heading") {
  GradcheckReport report;
  report.rows = {wrong_by(1.0), wrong_by(1.0)};
  report.rows[0].output = "loss";
  report.rows[1].output = "logits";
  const std::string text = to_string(report);
  CHECK(text.starts_with("gradients of the loss"));
  CHECK(contains(text, "\ngradients of the logits"));
  CHECK(contains(text, "wrong: x (of logits): "));
}

namespace {

/// x * y, with dL/dy = x^2 dL/d(xy).
struct WrongSecond {
  static constexpr const char* name = "wrong_second";
  Tensor x{}, y{};

  Tensor forward(const Tensor& a, const Tensor& b) {
    x = a;
    y = b;
    return product(a, b, 1);
  }
  void backward(const Tensor& dz, Gradient dx, Gradient dy) const {
    if (dx) dx.add(product(dz, y, 1));
    if (dy) dy.add(product(dz, x, 2));
  }

  static Tensor product(const Tensor& a, const Tensor& b, int power) {
    Tensor z = Tensor::empty(a.shape(), DType::float64);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double factor = b.values<double>()[i];
      z.mutable_values<double>()[i] =
          a.values<double>()[i] * (power == 1 ? factor : factor * factor);
    }
    return z;
  }
};

/// x + y, with gradients that are 2 and 3 times too large.
struct WrongBoth {
  static constexpr const char* name = "wrong_both";

  Tensor forward(const Tensor& a, const Tensor& b) { return a + b; }
  void backward(const Tensor& dz, Gradient dx, Gradient dy) const {
    if (dx) dx.add(2.0 * dz);
    if (dy) dy.add(3.0 * dz);
  }
};

/// An operation that cannot be copied, and therefore cannot run again.
struct Unique {
  static constexpr const char* name = "unique";
  std::unique_ptr<int> own = std::make_unique<int>(0);
  Tensor forward(const Tensor& x) { return x.detach(); }
  void backward(const Tensor& dy, Gradient dx) const { dx.add(dy); }
};

GradcheckReport report_of(const std::function<Tensor()>& function, const Tensor& x,
                          const GradcheckOptions& options = {}) {
  const NamedTensor named[] = {{"x", x}};
  return gradcheck(function, named, options);
}

}  // namespace

TEST_CASE("the first wrong operation is reported with its number and its layer") {
  const Tensor x = random_leaf({2, 3}, 1);
  static const std::string& path = interned_path("encoder.layers.1.ff");
  const auto report = report_of(
      [&] {
        const Tensor y = square(x);
        const LayerPath here(path);
        return exp(times(times(y, 0.5), 3.0));
      },
      x);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->operation == "faulty");
  CHECK(report.first_wrong->layer_path == "encoder.layers.1.ff");
  CHECK(report.first_wrong->index == 1);
  CHECK(report.first_wrong->recorded == 4);
  CHECK(report.first_wrong->wrong_inputs.at(0).input == 0);
  CHECK(report.first_wrong->inputs == std::vector<Shape>{{2, 3}});
  CHECK(report.first_wrong->wrong_inputs.at(0).row.factor == doctest::Approx(0.5));
}

TEST_CASE("the report names the input with the wrong gradient") {
  const Tensor x = random_leaf({3}, 1);
  const auto report = report_of([&] { return apply(WrongSecond{}, exp(x), square(x)); }, x);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->operation == "wrong_second");
  CHECK(report.first_wrong->index == 2);
  REQUIRE(report.first_wrong->wrong_inputs.size() == 1);
  CHECK(report.first_wrong->wrong_inputs.at(0).input == 1);
}

TEST_CASE("the report names all inputs with wrong gradients of the first wrong operation") {
  const Tensor x = random_leaf({3}, 1);
  const auto report = report_of([&] { return apply(WrongBoth{}, exp(x), square(x)); }, x);
  REQUIRE(report.first_wrong);
  REQUIRE(report.first_wrong->wrong_inputs.size() == 2);
  CHECK(report.first_wrong->wrong_inputs.at(0).input == 0);
  CHECK(report.first_wrong->wrong_inputs.at(0).row.factor == doctest::Approx(2.0));
  CHECK(report.first_wrong->wrong_inputs.at(1).input == 1);
  CHECK(report.first_wrong->wrong_inputs.at(1).row.factor == doctest::Approx(3.0));
}

TEST_CASE("gradcheck checks only operations that the wrong output depends on") {
  const Tensor x = random_leaf({3}, 1), y = random_leaf({2}, 2);
  const NamedTensor named[] = {{"x", x}, {"y", y}};
  const auto report = gradcheck_outputs(
      [&] {
        return std::vector<NamedTensor>{{"good", square(exp(x))}, {"bad", times(square(y), 2.0)}};
      },
      named);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->index == 3);
  CHECK(report.first_wrong->recorded == 4);
  CHECK(report.first_wrong->inputs == std::vector<Shape>{{2}});
}

TEST_CASE("a missing gradient is not an error if the gradient of the output is zero") {
  const Tensor x = random_leaf({3}, 1);
  const Tensor mask = Tensor::from({3}, {0.0, 1.0, 1.0}, DType::float64);
  const auto leaves_out_first = [](std::size_t i, double g) { return i == 0 ? 0.0 : g; };
  const auto report =
      report_of([&] { return times(faulty(square(x), leaves_out_first) * mask, 2.0); }, x);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->index == 3);
}

TEST_CASE("first_wrong is empty if no operation is wrong, or if `locate` is false") {
  const Tensor x = random_leaf({3}, 1);
  CHECK_FALSE(report_of([&] { return square(exp(x)); }, x).first_wrong);
  CHECK_FALSE(report_of([&] { return times(x, 2.0); }, x, {.locate = false}).first_wrong);
}

TEST_CASE("the search for the first wrong operation skips operations that cannot be copied") {
  const Tensor x = random_leaf({3}, 1);
  const auto report = report_of([&] { return times(apply(Unique{}, x), 2.0); }, x);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->index == 1);
}

TEST_CASE("an operation with a second result runs again to find a wrong gradient") {
  const Tensor logits = random_leaf({1, 2, 3}, 1);
  Ids targets = Ids::zeros({1, 2});
  targets(0, 0) = 2;
  targets(0, 1) = 0;
  double nll = 0.0;
  const auto mean_loss = [&] {
    const Loss loss = cross_entropy(times(logits, 2.0), targets);
    nll = loss.nll_sum;
    return loss.mean;
  };
  const auto report = report_of(mean_loss, logits);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->operation == "faulty");
  CHECK(nll > 0.0);
}
