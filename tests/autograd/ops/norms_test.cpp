// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/norms.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The operations on operands x, weight and bias with this epsilon.
std::function<Tensor(const Operands&)> layer_norm_with(double epsilon) {
  return [=](const Operands& o) { return layer_norm(o[0], o[1], o[2], epsilon); };
}
std::function<Tensor(const Operands&)> rms_norm_with(double epsilon) {
  return [=](const Operands& o) { return rms_norm(o[0], o[1], epsilon); };
}
std::function<Tensor(const Operands&)> batch_norm_with(double epsilon) {
  return [=](const Operands& o) { return batch_norm(o[0], o[1], o[2], epsilon); };
}

/// Normalization over the given axis, composed of small operations.
Tensor composed(const Operands& o, std::ptrdiff_t axis, double epsilon) {
  const Tensor distance = o[0] - mean(o[0], {axis}, true);
  return distance * pow(mean(square(distance), {axis}, true) + epsilon, -0.5) * o[1] + o[2];
}

}  // namespace

TEST_CASE("norms give hand-worked values and gradients, with epsilon inside the root") {
  const double r = 1.0 / std::sqrt(2.0);
  check_worked({
      worked("layer norm, biased variance",  // mean 2.5, variance 1.25
             {exact({1, 4}, {1, 2, 3, 4}), exact({1, 2, 1, 1}), exact({0, 0, 0, 10})},
             layer_norm_with(0.75), exact({1, 4}, {-1.5 * r, -1.0 * r, 0.5 * r, 1.5 * r + 10})),
      worked("layer norm of one element", {exact({3, 1}, {-5, 0, 1e30}), exact({3}), exact({0.25})},
             layer_norm_with(1e-5), exact({3, 1}, {0.25, 0.25, 0.25}), {1, 2, 4},
             {{0, 0, 0}, {0}, {7}}),
      // Row 1 has mean 2 and variance 1: 1 / sqrt(1 + 3) = 1/2.
      worked("layer norm: NaN stays in its row",
             {exact({2, 2}, {not_a_number, 1, 1, 3}), exact({1, 1}), exact({0, 0})},
             layer_norm_with(3), exact({2, 2}, {not_a_number, not_a_number, -0.5, 0.5}),
             {1, 2, 1, 0}, {{not_a_number, not_a_number, 0.1875, -0.1875}}),
      worked("rms norm",  // mean squares 25 and 8
             {exact({2, 2}, {1, 7, 0, 4}), exact({1, -2})}, rms_norm_with(11),
             exact({2, 2}, {1.0 / 6, -14.0 / 6, 0, -8 / std::sqrt(19.0)})),
      // mean(x^2) + epsilon = 25: r = 1/5, xh = (0.6, 0.8), h = (1, 2), mean(h xh) = 1.1.
      worked("rms norm of (3, 4)", {exact({3, 4}), exact({1, 2})}, rms_norm_with(12.5),
             exact({0.6, 1.6}), {1, 1},
             {{0.2 * (1 - 0.6 * 1.1), 0.2 * (2 - 0.8 * 1.1)}, {0.6, 0.8}}),
      // Row 1 has mean square 4: 1 / sqrt(4 + 12) = 1/4, mean(h xh) = 1/4.
      worked("rms norm: NaN stays in its row",
             {exact({2, 2}, {not_a_number, 1, 2, 2}), exact({1, 1})}, rms_norm_with(12),
             exact({2, 2}, {not_a_number, not_a_number, 0.5, 0.5}), {1, 2, 1, 0},
             {{not_a_number, not_a_number, 0.25 * (1 - 0.125), 0.25 * (0 - 0.125)}}),
      // Feature 0: 1, 3, 5, 7 has mean 4 and variance 5; feature 1: mean 2, variance 0.
      worked("batch norm",
             {exact({2, 2, 2}, {1, 2, 3, 2, 5, 2, 7, 2}), exact({3, 10}), exact({1, -1})},
             batch_norm_with(4), exact({2, 2, 2}, {-2, -1, 0, -1, 2, -1, 4, -1})),
      // xh = (-1, 1) / sqrt(1 + 3) and g = (1, 0): mean(g) = 1/2, mean(g xh) = -1/4.
      worked("batch norm of (1, 3)", {exact({2, 1}, {1, 3}), exact({8}), exact({5})},
             batch_norm_with(3), exact({2, 1}, {1, 9}), {1, 0},
             {{4 * (1 - 0.5 - 0.125), 4 * (0 - 0.5 + 0.125)}, {-0.5}, {1}}),
      worked("batch norm of one row",
             {exact({1, 3}, {5, 6, 7}), exact({4, 4, 4}), exact({1, 2, 3})}, batch_norm_with(1e-5),
             exact({1, 3}, {1, 2, 3}), {1, 1, 1}, {{0, 0, 0}}),
      // 1 / sqrt(0 + 0.25) = 2 and mean(g) = 3.
      worked("batch norm of a column of one value",
             {exact({3, 1}, {5, 5, 5}), exact({4}), exact({7})}, batch_norm_with(0.25),
             exact({3, 1}, {7, 7, 7}), {1, 2, 6}, {{8 * (1 - 3), 8 * (2 - 3), 8 * (6 - 3)}, {0}}),
      worked("batch norm: NaN stays in its feature",
             {exact({2, 2}, {not_a_number, 1, 1, 3}), exact({1, 1}), exact({0, 0})},
             batch_norm_with(3), exact({2, 2}, {not_a_number, -0.5, not_a_number, 0.5}),
             {1, 1, 1, 0}, {{not_a_number, 0.1875, not_a_number, -0.1875}}),
      worked("batch norm with given moments",
             {exact({2, 2}, {1, 2, 3, 4}), exact({3, 10}), exact({1, -1})},
             [](const Operands& o) {
               const FeatureMoments moments{exact({2, 0}).detach().to(o[0].dtype()),
                                            exact({5, 21}).detach().to(o[0].dtype())};
               return batch_norm_given(o[0], o[1], o[2], moments, 4.0);
             },
             exact({2, 2}, {0, 3, 2, 7}), {1, 10, 100, 1000},
             {{1, 20, 100, 2000}, {33, 804}, {101, 1010}}),
  });
}

TEST_CASE("norms of equal values have a finite gradient, in rows of any size") {
  for (const DType dtype : dtypes) {
    for (const std::size_t n : {1, 2, 8, 16, 17, 33}) {
      CAPTURE(n);
      const Tensor weight = Tensor::full({n}, 2.0, dtype), bias = Tensor::full({n}, -1.0, dtype);
      const Tensor x = Tensor::full({2, n}, 4.0, dtype).set_requires_grad(true);
      const Tensor zero = Tensor::zeros({2, n}, dtype).set_requires_grad(true);
      Tape tape;
      const Tensor y = layer_norm(x, weight, bias);
      const Tensor z = rms_norm(zero, weight, 0.25);
      check_values(y, std::vector<double>(2 * n, -1.0));
      check_values(z, std::vector<double>(2 * n, 0.0));
      tape.backward(y + z,
                    Tensor::ones({2, n}, dtype));  // adding a constant to a row has no effect
      check_values(x.grad(), std::vector<double>(2 * n, 0.0), 1e-4);
      check_values(zero.grad(), std::vector<double>(2 * n, 4.0));
    }
  }
}

TEST_CASE("norms keep their precision far from zero") {
  // A one-pass variance would cancel here: the values differ by 1 around 4096.
  std::vector<double> values(2000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 4096.0 + static_cast<double>(i % 2);
  const Tensor row = Tensor::from(values), one = Tensor::ones({1}), zero = zeros({1});
  const double d = 0.5 / std::sqrt(0.25 + 1e-5);
  check_values(layer_norm(Tensor::from({4096, 4097, 4096, 4097}), Tensor::ones({4}), zeros({4})),
               {-d, d, -d, d}, 1e-5);
  const auto moments = batch_norm_with_moments(row.viewed_as({2000, 1}), one, zero, 1e-5).moments;
  check_values(moments.mean, {4096.5}, 1e-6);
  check_values(moments.variance, {0.25}, 1e-5);
}

TEST_CASE("values and gradients of norms agree with their formulas, even over blocks of rows") {
  for (const std::size_t rows : {2, 3, 16, 17, 31, 700, 1700}) {
    CAPTURE(rows);
    const Operands o{random_leaf({rows, 11}, 1), random_leaf({11}, 2), random_leaf({11}, 3)};
    CHECK(difference(results_of(layer_norm_with(0.1), o),
                     results_of([](const Operands& p) { return composed(p, 1, 0.1); }, o)) < 1e-10);
    CHECK(difference(results_of(batch_norm_with(0.1), o),
                     results_of([](const Operands& p) { return composed(p, 0, 0.1); }, o)) < 1e-10);
    const Operands x_and_weight{o[0], o[1]};
    const auto rms = [](const Operands& p) {
      return p[0] * pow(mean(square(p[0]), {1}, true) + 0.1, -0.5) * p[1];
    };
    CHECK(difference(results_of(rms_norm_with(0.1), x_and_weight), results_of(rms, x_and_weight)) <
          1e-10);
  }
}

TEST_CASE("batch_norm_given() with the moments of batch_norm is bit-identical to batch_norm") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2, 2}, {1, 2, 3, 2, 5, 2, 7, 2}, dtype);
    const Tensor two = Tensor::full({2}, 2.0, dtype);
    const auto small = batch_norm_with_moments(x, two, two, 4.0);
    check_values(small.moments.mean, {4, 2}, tolerance(dtype));
    check_values(small.moments.variance, {5, 0}, tolerance(dtype));
    const Tensor many = random_leaf({50, 19}, 1).detach().to(dtype);
    const Tensor weight = random_leaf({19}, 2).detach().to(dtype),
                 bias = random_leaf({19}, 3).detach().to(dtype);
    const auto [y, seen] = batch_norm_with_moments(many, weight, bias, 0.1);
    CHECK(values_of(batch_norm_given(many, weight, bias, seen, 0.1)) == values_of(y));
    const auto none = batch_norm_with_moments(Tensor::zeros({0, 4, 2}, dtype), two, two);
    check_values(none.moments.mean, {0, 0});
    check_values(none.moments.variance, {0, 0});
  }
}

TEST_CASE("norms reject shapes that do not fit and an epsilon that is not positive") {
  const Tensor x = zeros({2, 3}), three = zeros({3});
  check_error<ShapeError>("layer_norm: weight|(2)|(3)|(2, 3)",
                          [&] { layer_norm(x, zeros({2}), three); });
  check_error<ShapeError>("layer_norm: bias|(3, 1)|(3)|(2, 3)", [&] {
    layer_norm(x, three, zeros({3, 1}));
  });
  check_error<ShapeError>("rms_norm: weight|(2)|(3)|(2, 3)", [&] { rms_norm(x, zeros({2})); });
  check_error<ShapeError>("batch_norm: weight|(2)|(3)|(2, 3)",
                          [&] { batch_norm(x, zeros({2}), three); });
  check_error<ShapeError>("batch_norm: bias|(3, 1)|(3)|(2, 3)", [&] {
    batch_norm(x, three, zeros({3, 1}));
  });
  check_error<ShapeError>("batch_norm_given: the variance|(1)|(3)", [&] {
    batch_norm_given(x, three, three, {three, zeros({1})});
  });
  check_error<ShapeError>("batch_norm_given: the mean|(2)|(3)", [&] {
    batch_norm_given(x, three, three, {zeros({2}), three});
  });
  check_error<DTypeError>("batch_norm_given", [&] {
    batch_norm_given(x, three, three, {three, Tensor::zeros({3}, DType::float64)});
  });
  const Tensor scalar = zeros({});
  check_error<ShapeError>("layer_norm", [&] { layer_norm(scalar, scalar, scalar); });
  check_error<ShapeError>("rms_norm", [&] { rms_norm(scalar, scalar); });
  check_error<ShapeError>("batch_norm", [&] { batch_norm(scalar, scalar, scalar); });
  for (const double epsilon : {0.0, -1.0, not_a_number}) {
    check_error<ValueError>("layer_norm: epsilon|> 0",
                            [&] { layer_norm(x, three, three, epsilon); });
    check_error<ValueError>("rms_norm: epsilon|> 0", [&] { rms_norm(x, three, epsilon); });
    check_error<ValueError>("batch_norm: epsilon|> 0",
                            [&] { batch_norm(x, three, three, epsilon); });
    check_error<ValueError>("batch_norm_given: epsilon", [&] {
      batch_norm_given(x, three, three, {three, three}, epsilon);
    });
  }
}
