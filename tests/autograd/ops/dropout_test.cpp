// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/dropout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "autograd/error.h"
#include "autograd/kernels/philox.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

const RandomStream stream = RandomStream(7).named("dropout").at(3);
const RandomStream depth_stream = RandomStream(7).named("depth");

/// `count` operands of this shape with irregular values.
Operands uneven(std::size_t count, const Shape& shape, DType dtype) {
  Operands o;
  for (std::size_t i = 0; i < count; ++i) o.push_back(random_leaf(shape, i + 1).detach().to(dtype));
  return o;
}

/// The scale k of each row by its definition, of shape (rows, 1, ...).
Tensor row_scales(const Shape& shape, double rate) {
  Shape wanted = shape;
  for (std::size_t axis = 1; axis < shape.rank(); ++axis) wanted[axis] = 1;
  Tensor k = Tensor::zeros(wanted, DType::float64);
  for (std::size_t row = 0; row < shape[0]; ++row) {
    if (depth_stream.uniform(row) >= rate) k.mutable_values<double>()[row] = 1 / (1 - rate);
  }
  return k;
}

}  // namespace

TEST_CASE("dropout keeps element i if its 16 random bits are at least rate * 2^16") {
  std::uint32_t words[kernels::philox_group];
  kernels::philox_words(stream.key(), 1, words);
  for (const DType dtype : dtypes) {
    const auto found = values_of(dropout(Tensor::full({2, 100}, 3.0, dtype), 0.25, stream));
    for (std::size_t i = 128; i < 200; ++i) {
      CAPTURE(i);
      const std::uint32_t word = words[(i - 128) / 2];
      const std::uint32_t half = i % 2 == 0 ? word & 0xffffU : word >> 16;
      const double expected = half >= std::uint32_t{1} << 14 ? 4.0 : 0.0;
      CHECK(found[i] == doctest::Approx(expected).epsilon(tolerance(dtype)));
    }
  }
}

TEST_CASE("dropout at rate 0, and with a stream that is off, returns x itself") {
  const Tensor x = Tensor::from({1.0, 2.0});
  CHECK(dropout(x, 0.0, stream).memory().data() == x.memory().data());
  CHECK(dropout(x, 0.5, RandomStream()).memory().data() == x.memory().data());
  CHECK(dropout(x, 1.0, RandomStream()).memory().data() == x.memory().data());
}

TEST_CASE("dropout operations give hand-worked values and gradients at rates 0 and 1") {
  const auto with = [](double rate, const RandomStream& random) {
    return [=](const Operands& o) {
      return o.size() == 1 ? dropout(o[0], rate, random) : dropout_add(o[0], o[1], rate, random);
    };
  };
  const auto adds = [](const ResidualAddOptions& options) {
    return [=](const Operands& o) { return residual_add(o[0], o[1], options); };
  };
  const Tensor u = exact({1, 2}), v = exact({10, 20});
  check_worked({
      worked("dropout at rate 1, even of NaN and infinity", {exact({not_a_number, inf, 1})},
             with(1, stream), exact({0, 0, 0}), {not_a_number, not_a_number, 1}, {{0, 0, 0}}),
      worked("dropout_add that is off", {u, v}, with(0.5, RandomStream()), exact({11, 22})),
      worked("dropout_add at 1", {u, v}, with(1, stream), exact({1, 2}), {3, 4}, {{3, 4}, {0, 0}}),
      worked(
          "relu_dropout that is off", {exact({1, -2})},
          [](const Operands& o) { return relu_dropout(o[0], 0.5, RandomStream()); }, exact({1, 0})),
      worked("residual_add", {exact({1, 2, -3}), exact({10, 0, 4})},
             adds({.skip_scale = 0.5, .sublayer_scale = 2}), exact({20.5, 1, 6.5}), {1, 10, 100},
             {{0.5, 5, 50}, {2, 20, 200}}),
      worked("a dropped row has no effect", {u, exact({inf, not_a_number})},
             adds({.stochastic_depth = 1.0, .depth_random = depth_stream}), u, {1, inf},
             {{1, inf}, {0, 0}}),
      worked("a scalar is one row", {exact({}, {4}), exact({}, {3})},
             adds({.skip_scale = 0.5, .stochastic_depth = 0.5, .depth_random = depth_stream}),
             exact({}, {depth_stream.uniform(0) < 0.5 ? 2.0 : 8.0})),
  });
}

TEST_CASE("equal streams drop the same elements, in both precisions and in longer tensors") {
  const auto kept_of = [](std::size_t n, DType dtype, const RandomStream& random) {
    return values_of(dropout(Tensor::ones({n}, dtype), 0.5, random));
  };
  const auto all = kept_of(40000, DType::float32, stream);
  CHECK(kept_of(40000, DType::float32, stream) == all);
  CHECK(kept_of(40000, DType::float32, stream.at(0)) != all);
  CHECK(kept_of(40000, DType::float64, stream) == all);
  CHECK(kept_of(33333, DType::float32, stream) ==
        std::vector<double>(all.begin(), all.begin() + 33333));
}

TEST_CASE("the gradients of dropout operations agree with finite differences") {
  for (const std::size_t n : {63, 64, 65, 130}) {
    CAPTURE(n);
    const Tensor x = random_leaf({n}, n);
    CHECK(gradient_error([&] { return dropout(x, 0.3, stream); }, {x}) < 1e-6);
    CHECK(gradient_error([&] { return relu_dropout(x, 0.3, stream); }, {x}) < 1e-6);
  }
}

TEST_CASE("values and gradients of fused dropout are bit-identical to separate operations") {
  for (const DType dtype : dtypes) {
    for (const double rate : {0.0, 0.3, 1.0}) {
      for (const std::size_t n : {1, 7, 15, 16, 17, 64, 127, 128, 129, 20000}) {
        CAPTURE(rate);
        CAPTURE(n);
        const Operands two = uneven(2, {n}, dtype), one = uneven(1, {n}, dtype);
        CHECK(
            results_of([&](const Operands& o) { return dropout_add(o[0], o[1], rate, stream); },
                       two) ==
            results_of([&](const Operands& o) { return o[0] + dropout(o[1], rate, stream); }, two));
        CHECK(
            results_of([&](const Operands& o) { return relu_dropout(o[0], rate, stream); }, one) ==
            results_of([&](const Operands& o) { return dropout(relu(o[0]), rate, stream); }, one));
      }
    }
  }
}

TEST_CASE("relu_dropout gives 0 with zero gradient at 0, and NaN if a NaN is kept") {
  const auto at = [](double x) { return Tensor::full({200}, x, DType::float64); };
  const auto run = [](const Operands& o) { return relu_dropout(o[0], 0.5, stream); };
  const std::vector<double> zero(200, 0.0);
  CHECK(results_of(run, {at(0.0)}) == Results{zero, {zero}});
  const auto y = values_of(run({at(not_a_number)})), kept = values_of(run({at(1.0)}));
  for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (kept[i] != 0.0));
}

TEST_CASE("residual_add with scales of 1 and no dropped rows is bit-identical to dropout_add") {
  for (const DType dtype : dtypes) {
    const Operands o = uneven(2, {7, 100}, dtype);
    for (const double rate : {0.0, 0.3, 1.0}) {
      const auto plain =
          results_of([&](const Operands& p) { return dropout_add(p[0], p[1], rate, stream); }, o);
      for (const ResidualAddOptions& options :
           {ResidualAddOptions{.dropout = rate, .random = stream},
            ResidualAddOptions{.dropout = rate, .random = stream, .stochastic_depth = 0.5},
            ResidualAddOptions{.dropout = rate, .random = stream, .depth_random = depth_stream}}) {
        CHECK(results_of([&](const Operands& p) { return residual_add(p[0], p[1], options); }, o) ==
              plain);
      }
    }
  }
}

TEST_CASE("residual_add agrees with separate operations, for rows of any size") {
  for (const Shape& shape : {Shape{40}, Shape{5, 1}, Shape{3, 2, 5}, Shape{4, 127}, Shape{3, 128},
                             Shape{2, 3, 100}, Shape{60, 700}}) {
    for (const double rate : {0.0, 0.3}) {
      for (const double row_rate : {0.0, 0.4, 1.0}) {
        CAPTURE(to_string(shape));
        const ResidualAddOptions options{.skip_scale = 0.75,
                                         .sublayer_scale = -1.5,
                                         .dropout = rate,
                                         .random = stream,
                                         .stochastic_depth = row_rate,
                                         .depth_random = depth_stream};
        const Tensor k =
            row_rate == 0.0 ? Tensor::scalar(1, DType::float64) : row_scales(shape, row_rate);
        const Operands o = uneven(2, shape, DType::float64);
        CHECK(
            difference(
                results_of([&](const Operands& p) { return residual_add(p[0], p[1], options); }, o),
                results_of(
                    [&](const Operands& p) {
                      return 0.75 * p[0] - 1.5 * (dropout(p[1], rate, stream) * k);
                    },
                    o)) < 1e-12);
      }
    }
  }
}

TEST_CASE("dropout operations reject rates outside 0 to 1 and shapes that differ") {
  const Tensor x = zeros({2, 3}), three = zeros({3});
  check_error<ValueError>("dropout: the rate is 1.5|0 to 1", [&] { dropout(x, 1.5, stream); });
  check_error<ValueError>("dropout", [&] { dropout(x, -0.1, RandomStream()); });
  check_error<ValueError>("dropout", [&] { dropout(x, not_a_number, stream); });
  check_error<ValueError>("dropout_add: the rate is -1", [&] { dropout_add(x, x, -1.0, stream); });
  check_error<ValueError>("relu_dropout: the rate is 1.5", [&] { relu_dropout(x, 1.5, stream); });
  check_error<ValueError>("residual_add: the rate is -1",
                          [&] { residual_add(x, x, {.skip_scale = 0.5, .dropout = -1}); });
  check_error<ValueError>("residual_add: the rate is 2",
                          [&] { residual_add(x, x, {.stochastic_depth = 2}); });
  check_error<ShapeError>("dropout_add: residual|(3)|(2, 3)",
                          [&] { dropout_add(three, x, 0.5, stream); });
  check_error<ShapeError>("residual_add: residual|(3)|(2, 3)",
                          [&] { residual_add(three, x, {.skip_scale = 0.5}); });
}
