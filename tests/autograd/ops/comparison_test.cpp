// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/comparison.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "tests/support/broadcasting.h"
#include "tests/support/cases.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// A case of two operands, without gradients.
WorkedCase binary(const char* name, const BinaryOperation& f, const std::vector<double>& a,
                  const std::vector<double>& b, const std::vector<double>& y) {
  return {name, {exact(a), exact(b)}, [=](const Operands& o) { return f(o[0], o[1]); }, exact(y)};
}

/// Selects the overload for two tensors.
using Binary = Tensor (*)(const Tensor&, const Tensor&);

}  // namespace

TEST_CASE("comparisons are 1 where true and 0 elsewhere") {
  const std::vector<double> a{1, 2, 3, -0.0, not_a_number, inf};
  const std::vector<double> b{2, 2, 2, 0.0, not_a_number, not_a_number};
  check_worked({
      binary("<", [](const auto& x, const auto& y) { return x < y; }, a, b, {1, 0, 0, 0, 0, 0}),
      binary("<=", [](const auto& x, const auto& y) { return x <= y; }, a, b, {1, 1, 0, 1, 0, 0}),
      binary(">", [](const auto& x, const auto& y) { return x > y; }, a, b, {0, 0, 1, 0, 0, 0}),
      binary(">=", [](const auto& x, const auto& y) { return x >= y; }, a, b, {0, 1, 1, 1, 0, 0}),
      binary("equal", Binary{equal}, a, b, {0, 1, 0, 1, 0, 0}),
      binary("not_equal", Binary{not_equal}, a, b, {1, 0, 1, 0, 1, 1}),
  });
}

TEST_CASE("only not_equal is true for NaN, at any position in a vector") {
  for (std::size_t place = 0; place < 19; ++place) {
    Tensor x = zeros({19});
    x.mutable_values<float>()[place] = static_cast<float>(not_a_number);
    std::vector<double> expected(19, 0.0);
    expected[place] = 1.0;
    CHECK(values_of(not_equal(x, x)) == expected);
    for (double& value : expected) value = 1.0 - value;
    CHECK(values_of(less_equal(x, x)) == expected);
    CHECK(values_of(equal(x, x)) == expected);
  }
}

TEST_CASE("allclose compares with a relative and an absolute tolerance") {
  struct Case {
    double a, b, relative, absolute;
    bool close;
  };
  for (const Case& c :
       {Case{1.0, 1.0, 0, 0, true}, Case{1.0, 1.1, 0, 0, false}, Case{1.0, 1.1, 0.1, 0, true},
        Case{1.1, 1.0, 0.095, 0, false}, Case{1.0, 1.1, 0.095, 0, true},
        Case{0.0, 1e-9, 0, 1e-8, true}, Case{0.0, 1e-7, 0, 1e-8, false}, Case{inf, inf, 0, 0, true},
        Case{inf, -inf, 1, 1, false}, Case{1.0, inf, 1, 1, false},
        Case{not_a_number, not_a_number, 1, 1, false}}) {
    CAPTURE(c.a);
    CAPTURE(c.b);
    const Tensor a = Tensor::from({{1, 2, c.a}, {4, 5, 6}}, DType::float64);
    const Tensor b = Tensor::from({{1, 2, c.b}, {4, 5, 6}}, DType::float64);
    CHECK(allclose(a, b, c.relative, c.absolute) == c.close);
  }
  CHECK(allclose(Tensor::from({1, 1 + 1e-6}), Tensor::scalar(1.0)));
  CHECK_FALSE(allclose(Tensor::from({1, 1 + 1e-4}), Tensor::scalar(1.0)));
  CHECK(allclose(zeros({0}), zeros({0})));
  check_error<ShapeError>("allclose:|(2)|(3)", [] { allclose(zeros({2}), zeros({3})); });
  CHECK_THROWS_AS(allclose(zeros({2}), Tensor::zeros({2}, DType::float64)), DTypeError);
}

TEST_CASE("comparisons broadcast, reject shapes that do not fit, and have no gradient") {
  struct Operation {
    std::string name;
    BinaryOperation f;
    double (*expected)(double, double);
  };
  const Operation operations[] = {
      {"less", less, [](double a, double b) { return a < b ? 1.0 : 0.0; }},
      {"less_equal", less_equal, [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
      {"equal", Binary{equal}, [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"not_equal", Binary{not_equal}, [](double a, double b) { return a != b ? 1.0 : 0.0; }}};
  for (const Operation& operation : operations) {
    CAPTURE(operation.name);
    check_broadcast_values(operation.f, operation.expected);
    check_broadcast_errors(operation.name, operation.f);
  }
  const Tape tape;
  CHECK_FALSE((random_leaf({3}, 1) < random_leaf({3}, 2)).requires_grad());
  CHECK(tape.size() == 0);
}

TEST_CASE("maximum and minimum broadcast values and gradients, and reject incompatible shapes") {
  check_broadcast_values(Binary{maximum}, [](double a, double b) { return std::max(a, b); });
  check_broadcast_values(Binary{minimum}, [](double a, double b) { return std::min(a, b); });
  check_broadcast_gradients(Binary{maximum});
  check_broadcast_gradients(Binary{minimum});
  check_broadcast_errors("maximum", Binary{maximum});
}

TEST_CASE("where, maximum, minimum and clamp give hand-worked values and gradients") {
  const auto choose = [](const Operands& o) { return where(o[0], o[1], o[2]); };
  const auto larger = [](const Operands& o) { return maximum(o[0], o[1]); };
  const auto smaller = [](const Operands& o) { return minimum(o[0], o[1]); };
  check_worked({
      worked("where", {exact({1, 0, -2}), exact({1, 2, 3}), exact({4, 5, 6})}, choose,
             exact({1, 5, 3}), {10, 20, 30}, {{}, {10, 0, 30}, {0, 20, 0}}),
      worked("where: values that are not chosen have no effect",
             {exact({1, 0}), exact({1, not_a_number}), exact({inf, 2})}, choose, exact({1, 2}),
             {inf, not_a_number}, {{}, {inf, 0}, {0, not_a_number}}),
      worked("maximum, equal operands share the gradient", {exact({1, 4, -3}), exact({2, 4, -5})},
             larger, exact({2, 4, -3}), {1, 2, 3}, {{0, 1, 3}, {1, 1, 0}}),
      worked("minimum", {exact({1, 4, -3}), exact({2, 4, -5})}, smaller, exact({1, 4, -5}),
             {1, 2, 3}, {{1, 1, 0}, {0, 1, 3}}),
      worked("maximum with infinities", {exact({inf, -inf, 1}), exact({0, 0, 2})}, larger,
             exact({inf, 0, 2}), {1, 1, inf}, {{1, 0, 0}, {0, 1, inf}}),
      worked("minimum with infinities", {exact({inf, -inf}), exact({0, 0})}, smaller,
             exact({0, -inf})),
      worked(
          "NaN is both the largest and the smallest value",
          {exact({not_a_number, 1}), exact({1, not_a_number})},
          [&](const Operands& o) { return larger(o) + smaller(o); },
          exact({not_a_number, not_a_number})),
      elementwise_case("clamp", [](const Tensor& x) { return clamp(x, -1.0, 3.0); },
                       {-2, -1, 0.5, 3, 4, not_a_number}, {-1, -1, 0.5, 3, 3, not_a_number}),
      elementwise_case("clamp, slopes", [](const Tensor& x) { return clamp(x, -1.0, 3.0); },
                       {-2, -1, 0.5, 3, 4}, {-1, -1, 0.5, 3, 3}, {0, 1, 1, 1, 0}),
      elementwise_case("clamp on one side", [](const Tensor& x) { return clamp(x, -inf, 5.0); },
                       {-inf, inf, 7}, {-inf, 5, 5}),
      elementwise_case("abs", [](const Tensor& x) { return abs(x); }, {-2, -0.0, 0, 3, -inf},
                       {2, 0, 0, 3, inf}, {-1, 0, 0, 1, -1}),
  });
  CHECK_FALSE(std::signbit(abs(Tensor::scalar(-0.0)).item()));
}

TEST_CASE("where broadcasts the condition and both operands") {
  const Tensor condition = exact({2, 1}, {1, 0});
  const Tensor a = random_leaf({3}, 1), b = random_leaf({2, 1, 1}, 2);
  const Tensor y = where(condition, a, b);
  CHECK(y.shape() == Shape{2, 2, 3});
  std::vector<double> expected;
  for (std::size_t i = 0; i < 12; ++i) {
    expected.push_back(i / 3 % 2 == 0 ? values_of(a)[i % 3] : values_of(b)[i / 6]);
  }
  CHECK(values_of(y) == expected);
  CHECK(gradient_error([&] { return where(condition, a, b); }, {a, b}) < 1e-9);
}

TEST_CASE("where and clamp reject mixed element types and invalid limits") {
  const Tensor single = zeros({2, 3});
  check_error<DTypeError>("where: |float64 and float32", [&] {
    where(Tensor::zeros({2, 3}, DType::float64), single, single);
  });
  check_error<ShapeError>("where", [&] { where(zeros({2, 4}), single, single); });
  check_error<ShapeError>("where", [&] { where(single, single, zeros({4})); });
  check_error<ValueError>("clamp: |2 and 1|low <= high", [&] { clamp(single, 2.0, 1.0); });
  check_error<ValueError>("clamp", [&] { clamp(single, not_a_number, 1.0); });
}

TEST_CASE("gradcheck of comparisons is not affected by kinks next to the point") {
  // The step of a finite difference crosses each of these kinks.
  constexpr double near = 1e-9;
  const Tensor x = exact({near, -near, 1.0 + near, 1.0 - near}).set_requires_grad(true);
  const Tensor zero = Tensor::zeros({4}, DType::float64);
  const std::function<Tensor()> functions[] = {
      [&] { return abs(x); }, [&] { return clamp(x, 0.0, 1.0) + x; },
      [&] { return maximum(x, zero) + x; }, [&] { return minimum(x, zero) + x; },
      [&] { return where(x > 0.0, 2.0 * x, 3.0 * x); }};
  for (const auto& f : functions) CHECK(gradcheck(f, {{"x", x}}).worst_relative_error() < 1e-6);
}

TEST_CASE("all comparisons accept numbers, which are converted to the element type of the tensor") {
  const auto values = [](const Tensor& y, const Tensor& x) {
    CHECK(y.dtype() == x.dtype());
    return values_of(y);
  };
  using V = std::vector<double>;
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({0.1, 0.2, 0.3}, dtype).set_requires_grad(true);
    CHECK(values(x < 0.2, x) == V{1, 0, 0});
    CHECK(values(x <= 0.2, x) == V{1, 1, 0});
    CHECK(values(x > 0.2, x) == V{0, 0, 1});
    CHECK(values(x >= 0.2, x) == V{0, 1, 1});
    CHECK(values(equal(x, 0.2), x) == V{0, 1, 0});
    CHECK(values(not_equal(x, 0.2), x) == V{1, 0, 1});
    CHECK(values(where(x > 0.2, 1.5, -1.5), x) == V{-1.5, -1.5, 1.5});
    CHECK(values(maximum(x, 0.5), x) == V{0.5, 0.5, 0.5});
    CHECK(values(minimum(x, -0.5), x) == V{-0.5, -0.5, -0.5});
    Tape tape;
    tape.backward(where(x > 0.2, x, 0.5) + where(x > 0.2, 0.5, 3.0 * x), ones_like(x));
    check_values(x.grad(), {3.0, 3.0, 1.0});
  }
}

TEST_CASE("sign is 1, 0 or -1 and has no gradient") {
  check_worked({elementwise_case("sign", [](const Tensor& x) { return sign(x); },
                                 {-inf, -0.5, -0.0, 0, 3, not_a_number}, {-1, -1, 0, 0, 1, 0})});
  const Tape tape;
  CHECK_FALSE(sign(random_leaf({9}, 1)).requires_grad());
}
