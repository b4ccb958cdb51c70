#include "layers/heads.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;
using Lengths = std::vector<std::int32_t>;

namespace {

/// Two sequences of three tokens of width 2.
Tensor two_sequences(DType dtype = DType::float64) {
  return Tensor::from({2, 3, 2},
                      {1, 2, 3, 4, 8, 0,  //
                       -1, 5, 3, 7, 100, 100},
                      dtype);
}

}  // namespace

TEST_CASE("class-token pooling takes the first token, whatever the lengths") {
  for (const DType dtype : dtypes) {
    for (const Lengths& lengths : {Lengths{}, Lengths{3, 1}}) {
      const Tensor y = pool(PoolingKind::class_token, two_sequences(dtype), lengths);
      CHECK(y.shape() == Shape{2, 1, 2});
      check_values(y, {1, 2, -1, 5});
    }
  }
}

TEST_CASE("mean pooling averages the tokens of each sequence without its padding") {
  for (const DType dtype : dtypes) {
    const Tensor y = pool(PoolingKind::mean, two_sequences(dtype), Lengths{3, 2});
    CHECK(y.dtype() == dtype);
    CHECK(y.shape() == Shape{2, 1, 2});
    check_values(y, {4, 2, 1, 6}, tolerance(dtype));
  }
}

TEST_CASE("mean pooling without lengths averages all tokens") {
  check_values(pool(PoolingKind::mean, two_sequences(), {}), {4, 2, 34, 112.0 / 3});
  check_values(pool(PoolingKind::mean, two_sequences(), {3, 2}),
               values_of(pool(PoolingKind::mean, two_sequences(), Lengths{3, 2})));
}

TEST_CASE("mean pooling of one token is that token") {
  check_values(pool(PoolingKind::mean, two_sequences(), Lengths{1, 1}), {1, 2, -1, 5});
}

TEST_CASE("values of padding do not affect mean pooling") {
  Tensor x = two_sequences();
  const auto before = values_of(pool(PoolingKind::mean, x, Lengths{3, 2}));
  x.mutable_values<double>()[10] = -1e300;
  CHECK(values_of(pool(PoolingKind::mean, x, Lengths{3, 2})) == before);
}

TEST_CASE("the gradients of both kinds of pooling agree with differences") {
  const Tensor x = random_leaf({3, 4, 5}, 1);
  const Lengths lengths = {4, 1, 3};
  CHECK(gradient_error([&] { return pool(PoolingKind::mean, x, lengths); }, {x}) < 1e-8);
  CHECK(gradient_error([&] { return pool(PoolingKind::mean, x, {}); }, {x}) < 1e-8);
  CHECK(gradient_error([&] { return pool(PoolingKind::class_token, x, lengths); }, {x}) < 1e-8);
}

TEST_CASE("mean pooling has the same bits on any number of threads") {
  const Tensor x = random_leaf({64, 33, 40}, 2);
  const Lengths lengths(64, 29);
  CHECK(same_on_any_number_of_threads(
      [&] { return values_of(pool(PoolingKind::mean, x, lengths)); }));
}

TEST_CASE("pooling refuses lengths that do not fit") {
  const Tensor x = two_sequences();
  CHECK_THROWS_WITH_AS(pool(PoolingKind::mean, x, Lengths{3}),
                       "pooling: 1 lengths for x of shape (2, 3, 2), expected 2", ShapeError);
  CHECK_THROWS_WITH_AS(pool(PoolingKind::mean, x, Lengths{3, 3, 3}),
                       "pooling: 3 lengths for x of shape (2, 3, 2), expected 2", ShapeError);
  CHECK_THROWS_WITH_AS(pool(PoolingKind::mean, x, Lengths{3, -1}),
                       "pooling: row 1 of x of shape (2, 3, 2) has length -1, expected 1 to 3",
                       ShapeError);
  CHECK_NOTHROW(pool(PoolingKind::mean, x, Lengths{1, 3}));
  CHECK_THROWS_WITH_AS(pool(PoolingKind::mean, x, Lengths{3, 4}),
                       "pooling: row 1 of x of shape (2, 3, 2) has length 4, expected 1 to 3",
                       ShapeError);
  CHECK_THROWS_WITH_AS(pool(PoolingKind::mean, x, Lengths{0, 3}),
                       "pooling: row 0 of x of shape (2, 3, 2) has length 0, expected 1 to 3",
                       ShapeError);
}
