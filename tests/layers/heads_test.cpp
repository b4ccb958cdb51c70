// SPDX-License-Identifier: BSD-3-Clause
#include "layers/heads.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("heads reject incompatible shapes, and the error names the head") {
  Parameters parameters(DType::float64, 1);
  const Scope scope(parameters);
  const Tensor x = Tensor::zeros({2, 1, 5}, DType::float64);
  const OutputProjection output(scope / "output", 4, 7);
  check_error<ShapeError>("output: linear", [&] { output.logits(x); });
  check_error<ShapeError>("output: linear", [&] { output.loss(x, Ids{{0}, {0}}, {}); });
  const ClassificationHead head(scope / "head", 4, 3, PoolingKind::mean);
  check_error<ShapeError>("head: linear:|(2, 1, 5)|4|(3, 4)", [&] { head.logits(x); });
}

TEST_CASE("by default a classification head pools the class token") {
  Parameters parameters(DType::float64, 1);
  const std::vector<std::int32_t> lengths = {3, 2};
  const Tensor x = random_leaf({2, 3, 4}, 1);
  CHECK(values_of(ClassificationHead(Scope(parameters), 4, 3).features(x, lengths)) ==
        values_of(pool(PoolingKind::class_token, x, lengths)));
}

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

TEST_CASE("class-token pooling takes the first token, regardless of lengths") {
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

TEST_CASE("pooling rejects lengths that do not match its input") {
  const Tensor x = two_sequences();
  check_error<ShapeError>("pooling:|1|(2, 3, 2)|2",
                          [&] { pool(PoolingKind::mean, x, Lengths{3}); });
  check_error<ShapeError>("pooling:|3|(2, 3, 2)|2", [&] {
    pool(PoolingKind::mean, x, Lengths{3, 3, 3});
  });
  check_error<ShapeError>("pooling:|1|(2, 3, 2)|-1|3", [&] {
    pool(PoolingKind::mean, x, Lengths{3, -1});
  });
  CHECK_NOTHROW(pool(PoolingKind::mean, x, Lengths{1, 3}));
  check_error<ShapeError>("pooling:|1|(2, 3, 2)|4|3", [&] {
    pool(PoolingKind::mean, x, Lengths{3, 4});
  });
  check_error<ShapeError>("pooling:|0|(2, 3, 2)|1|3", [&] {
    pool(PoolingKind::mean, x, Lengths{0, 3});
  });
}
