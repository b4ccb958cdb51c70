#include "autograd/ops/packed.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/elementwise.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr std::array<std::int32_t, 3> lengths = {2, 0, 3};

/// Three sentences of three positions, of which padding is NaN.
Tensor padded(DType dtype = DType::float64) {
  return Tensor::from({3, 3, 1}, {1, 2, NAN, NAN, NAN, NAN, 3, 4, 5}, dtype);
}

}  // namespace

TEST_CASE("pack_padded removes padding, and pad_packed fills it with zeros") {
  for (const DType dtype : dtypes) {
    const Tensor y = pack_padded(padded(dtype), lengths);
    CHECK(y.shape() == Shape{5, 1});
    check_exactly(y, {1, 2, 3, 4, 5});
    const Tensor x = pad_packed(y, lengths, 3);
    CHECK(x.shape() == Shape{3, 3, 1});
    check_exactly(x, {1, 2, 0, 0, 0, 0, 3, 4, 5});
  }
}

TEST_CASE("pack_padded takes a length beyond the end as the whole sentence, and 0 sentences") {
  CHECK(pack_padded(Tensor::zeros({1, 2, 4}, DType::float64), std::array<std::int32_t, 1>{9})
            .shape() == Shape{2, 4});
  CHECK(pack_padded(Tensor::zeros({0, 2, 4}, DType::float64), {}).shape() == Shape{0, 4});
  CHECK(pad_packed(Tensor::zeros({0, 4}, DType::float64), std::array<std::int32_t, 2>{0, 0}, 3)
            .shape() == Shape{2, 3, 4});
}

TEST_CASE("gradients of pack_padded and pad_packed return to the positions of the values") {
  const Tensor x = padded().require_gradient();
  {
    Tape tape;
    tape.backward(pack_padded(x, lengths),
                  Tensor::from({5, 1}, {10, 20, 30, 40, 50}, DType::float64));
  }
  check_exactly(x.gradient(), {10, 20, 0, 0, 0, 0, 30, 40, 50});
  const Tensor y = Tensor::zeros({5, 1}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(pad_packed(y, lengths, 3),
                Tensor::from({3, 3, 1}, {1, 2, NAN, NAN, NAN, NAN, 3, 4, 5}, DType::float64));
  check_exactly(y.gradient(), {1, 2, 3, 4, 5});
}

TEST_CASE("the gradients of pack_padded and pad_packed agree with differences") {
  const Tensor x = random_leaf({3, 3, 2}, 1), y = random_leaf({5, 2}, 2);
  CHECK(gradient_error([&] { return pack_padded(x, lengths) * pack_padded(x, lengths); }, {x}) <
        1e-6);
  CHECK(gradient_error([&] { return pad_packed(y, lengths, 3) * pad_packed(y, lengths, 3); }, {y}) <
        1e-6);
}

TEST_CASE("pack_padded and pad_packed refuse lengths of another number of sentences") {
  CHECK_THROWS_WITH_AS(pack_padded(Tensor::zeros({2, 3, 4}, DType::float64), lengths),
                       "pack_padded: x has shape (2, 3, 4), expected (3, n, d) for 3 lengths",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      pad_packed(Tensor::zeros({4, 2}, DType::float64), lengths, 3),
      "pad_packed: y has shape (4, 2), expected (5, d), the vectors of 3 sentences", ShapeError);
  CHECK_THROWS_WITH_AS(
      pack_padded(Tensor::zeros({1, 3, 4}, DType::float64), std::array<std::int32_t, 1>{-1}),
      "pack_padded: a length is -1, expected >= 0", ValueError);
}
