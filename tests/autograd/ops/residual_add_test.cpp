#include "autograd/ops/dropout.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

const RandomStream elements = RandomStream(7).named("dropout");
const RandomStream rows = RandomStream(7).named("depth");

/// Value, dL/dresidual and dL/dx.
using Results = std::vector<std::vector<double>>;

/// Those of `operation` on uneven residual and x of this shape.
template <class Operation>
Results results_of(const Operation& operation, const Shape& shape, DType dtype) {
  const Tensor residual = random_leaf(shape, 1).copied(dtype).require_gradient();
  const Tensor x = random_leaf(shape, 2).copied(dtype).require_gradient();
  Tape tape;
  const Tensor y = operation(residual, x);
  tape.backward(y, random_leaf(shape, 3).copied(dtype));
  return {values_of(y), values_of(residual.gradient()), values_of(x.gradient())};
}

/// k of each row by the definition, of shape (rows, 1, ...).
Tensor row_scales(const Shape& shape, double rate) {
  Shape wanted = shape;
  for (std::size_t axis = 1; axis < shape.rank(); ++axis) wanted[axis] = 1;
  Tensor k = Tensor::zeros(wanted, DType::float64);
  for (std::size_t row = 0; row < shape[0]; ++row) {
    if (rows.uniform(row) >= rate) k.mutable_values<double>()[row] = 1 / (1 - rate);
  }
  return k;
}

}  // namespace

TEST_CASE("residual_add scales both sides, values and gradients") {
  for (const DType dtype : dtypes) {
    const Tensor residual = Tensor::from({3}, {1, 2, -3}, dtype).require_gradient();
    const Tensor x = Tensor::from({3}, {10, 0, 4}, dtype).require_gradient();
    Tape tape;
    const Tensor y = residual_add(residual, x, {.skip_scale = 0.5, .sublayer_scale = 2});
    check_values(y, {20.5, 1, 6.5});
    tape.backward(y, Tensor::from({3}, {1, 10, 100}, dtype));
    check_values(residual.gradient(), {0.5, 5, 50});
    check_values(x.gradient(), {2, 20, 200});
  }
}

TEST_CASE("residual_add with scales of 1 and no rows to drop is dropout_add, to the last bit") {
  for (const DType dtype : dtypes) {
    for (const double rate : {0.0, 0.3, 1.0}) {
      const Shape shape{7, 100};
      const auto plain = results_of(
          [&](const Tensor& r, const Tensor& x) { return dropout_add(r, x, rate, elements); },
          shape, dtype);
      for (const ResidualAddOptions& options :
           {ResidualAddOptions{.dropout = rate, .random = elements},
            ResidualAddOptions{.dropout = rate, .random = elements, .stochastic_depth = 0.5},
            ResidualAddOptions{.dropout = rate, .random = elements, .depth_random = rows}}) {
        CHECK(results_of(
                  [&](const Tensor& r, const Tensor& x) { return residual_add(r, x, options); },
                  shape, dtype) == plain);
      }
    }
  }
}

TEST_CASE("residual_add agrees with its parts, for rows of any size") {
  for (const Shape& shape : {Shape{40}, Shape{5, 1}, Shape{3, 2, 5}, Shape{4, 127}, Shape{3, 128},
                             Shape{2, 3, 100}, Shape{60, 700}}) {
    for (const double rate : {0.0, 0.3}) {
      for (const double row_rate : {0.0, 0.4, 1.0}) {
        CAPTURE(to_string(shape));
        const ResidualAddOptions options{.skip_scale = 0.75,
                                         .sublayer_scale = -1.5,
                                         .dropout = rate,
                                         .random = elements,
                                         .stochastic_depth = row_rate,
                                         .depth_random = rows};
        const auto fused = results_of(
            [&](const Tensor& r, const Tensor& x) { return residual_add(r, x, options); }, shape,
            DType::float64);
        const auto composed = results_of(
            [&](const Tensor& r, const Tensor& x) {
              const Tensor k =
                  row_rate == 0.0 ? Tensor::scalar(1, DType::float64) : row_scales(shape, row_rate);
              return scale(r, 0.75) + scale(dropout(x, rate, elements) * k, -1.5);
            },
            shape, DType::float64);
        for (std::size_t i = 0; i < fused.size(); ++i) {
          for (std::size_t j = 0; j < fused[i].size(); ++j) {
            CHECK(fused[i][j] == doctest::Approx(composed[i][j]).epsilon(1e-12));
          }
        }
      }
    }
  }
}

TEST_CASE("stochastic depth drops whole rows with its rate and scales up the others") {
  constexpr std::size_t n = 4000;
  const Tensor zero = Tensor::zeros({n, 3}, DType::float32);
  const auto y = values_of(residual_add(zero, Tensor::full({n, 3}, 6, DType::float32),
                                        {.stochastic_depth = 0.25, .depth_random = rows}));
  std::size_t dropped = 0;
  for (std::size_t row = 0; row < n; ++row) {
    CHECK((y[3 * row] == 0 || y[3 * row] == 8));
    CHECK(y[3 * row + 1] == y[3 * row]);
    CHECK(y[3 * row + 2] == y[3 * row]);
    dropped += y[3 * row] == 0;
  }
  CHECK(static_cast<double>(dropped) / n == doctest::Approx(0.25).epsilon(0.1));
}

TEST_CASE("a row that is dropped has no effect, even if it is not finite") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor residual = Tensor::from({2}, {1, 2}, DType::float64).require_gradient();
  const Tensor x = Tensor::from({2}, {inf, std::nan("")}, DType::float64).require_gradient();
  Tape tape;
  const Tensor y = residual_add(residual, x, {.stochastic_depth = 1.0, .depth_random = rows});
  check_values(y, {1, 2});
  tape.backward(y, Tensor::from({2}, {1, inf}, DType::float64));
  check_values(x.gradient(), {0, 0});
}

TEST_CASE("residual_add of 0 rows gives 0 rows, and a scalar is one row") {
  const ResidualAddOptions halved{.skip_scale = 0.5, .stochastic_depth = 0.5, .depth_random = rows};
  const Tensor none = Tensor::zeros({0, 3}, DType::float32).require_gradient();
  Tape tape;
  const Tensor y = residual_add(none, none, halved);
  CHECK(y.shape() == Shape{0, 3});
  tape.backward(y, y);
  CHECK(none.gradient().shape() == Shape{0, 3});
  const double k = rows.uniform(0) < 0.5 ? 0 : 2;
  CHECK(residual_add(Tensor::scalar(4, DType::float64), Tensor::scalar(3, DType::float64), halved)
            .item() == 2 + 3 * k);
}

TEST_CASE("the gradients of residual_add agree with differences, for a tensor used twice too") {
  const Tensor residual = random_leaf({3, 40}, 1);
  const Tensor x = random_leaf({3, 40}, 2);
  const ResidualAddOptions options{.skip_scale = 0.5,
                                   .sublayer_scale = 3,
                                   .dropout = 0.3,
                                   .random = elements,
                                   .stochastic_depth = 0.3,
                                   .depth_random = rows};
  CHECK(gradient_error([&] { return residual_add(residual, x, options); }, {residual, x}) < 1e-6);
  CHECK(gradient_error([&] { return residual_add(x, x, options); }, {x}) < 1e-6);
}

TEST_CASE("residual_add computes no gradient of inputs that require none") {
  const Tensor wanted = Tensor::zeros({2}, DType::float32).require_gradient();
  const Tensor unwanted = Tensor::zeros({2}, DType::float32);
  const Tensor dy = Tensor::from({2}, {1, 2}, DType::float32);
  const ResidualAddOptions options{.skip_scale = 0.5, .sublayer_scale = 4};
  Tape tape;
  tape.backward(residual_add(wanted, unwanted, options), dy);
  Tape another;
  another.backward(residual_add(unwanted, wanted, options), dy);
  check_values(wanted.gradient(), {4.5, 9});
  CHECK_FALSE(unwanted.gradient().defined());
}

TEST_CASE("residual_add has the same bits on any number of threads") {
  CHECK(same_on_any_number_of_threads([] {
    return results_of(
        [](const Tensor& r, const Tensor& x) {
          return residual_add(r, x,
                              {.skip_scale = 0.5,
                               .dropout = 0.3,
                               .random = elements,
                               .stochastic_depth = 0.3,
                               .depth_random = rows});
        },
        {50, 1001}, DType::float32);
  }));
}

TEST_CASE("residual_add refuses shapes that do not fit") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  const ResidualAddOptions halved{.skip_scale = 0.5};
  CHECK_THROWS_WITH_AS(residual_add(Tensor::zeros({3}, DType::float32), x, halved),
                       "residual_add: residual has shape (3) and x (2, 3), expected one shape",
                       ShapeError);
  CHECK_THROWS_WITH_AS(residual_add(Tensor::zeros({2, 3}, DType::float64), x, halved),
                       "residual_add: operands are float64 and float32, expected one element type",
                       DTypeError);
  CHECK_THROWS_WITH_AS(residual_add(x, x, {.skip_scale = 0.5, .dropout = -1}),
                       "residual_add: the rate is -1, expected 0 to 1", ValueError);
  CHECK_THROWS_WITH_AS(residual_add(x, x, {.stochastic_depth = 2}),
                       "residual_add: the rate is 2, expected 0 to 1", ValueError);
}
