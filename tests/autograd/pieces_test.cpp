#include "autograd/pieces.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/reductions.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor row(std::initializer_list<double> values, DType dtype = DType::float64) {
  return Tensor::from({values.size()}, std::vector<double>(values), dtype);
}

/// f() in a pass over `pieces`.
template <class F>
std::vector<double> on(Pieces& pieces, const F& f) {
  const Pieces::Pass pass(pieces);
  return values_of(f());
}

}  // namespace

TEST_CASE("relu stays on the pieces where it was first, but for elements at the kink") {
  for (const DType dtype : dtypes) {
    Pieces pieces;
    CHECK(on(pieces, [&] {
            return relu(row({1.0, -1.0, 0.0, 0.0}, dtype));
          }) == std::vector{1.0, 0.0, 0.0, 0.0});
    CHECK(on(pieces, [&] {
            return relu(row({-2.0, 3.0, 4.0, -5.0}, dtype));
          }) == std::vector{-2.0, 0.0, 4.0, 0.0});
    CHECK(values_of(relu(row({-2.0, 3.0}, dtype))) == std::vector{0.0, 3.0});
  }
}

TEST_CASE("relu_dropout stays on its pieces and drops the same places") {
  const RandomStream stream = RandomStream(1).named("dropout");
  Pieces pieces;
  const Tensor up = Tensor::full({200}, 1.0, DType::float64);
  const Tensor down = Tensor::full({200}, -1.0, DType::float64);
  const auto first = on(pieces, [&] { return relu_dropout(up, 0.5, stream); });
  CHECK(first == values_of(relu_dropout(up, 0.5, stream)));
  auto moved = on(pieces, [&] { return relu_dropout(down, 0.5, stream); });
  for (double& value : moved) value = -value;
  CHECK(moved == first);
}

TEST_CASE("max keeps to the element that was the largest, but for ties") {
  Pieces pieces;
  const auto largest = [](std::initializer_list<double> values) {
    return max(Tensor::from({2, 3}, std::vector<double>(values), DType::float64), {0});
  };
  CHECK(on(pieces, [&] {
          return largest({1.0, 5.0, 7.0, 2.0, 4.0, 7.0});
        }) == std::vector{2.0, 5.0, 7.0});
  CHECK(on(pieces, [&] {
          return largest({9.0, 5.0, 6.0, 2.0, 8.0, 7.0});
        }) == std::vector{2.0, 5.0, 7.0});
}

TEST_CASE("calls are told apart by their order, and a pass begins with the first") {
  Pieces pieces;
  const auto both = [](double a, double b) {
    return std::vector{relu(row({a})).item(), relu(row({b})).item()};
  };
  for (int pass = 0; pass < 2; ++pass) {
    const Pieces::Pass again(pieces);
    CHECK(both(1.0, -1.0) == std::vector{1.0, 0.0});
  }
  const Pieces::Pass again(pieces);
  CHECK(both(-1.0, 1.0) == std::vector{-1.0, 0.0});
}

TEST_CASE("other operations than the first time are refused") {
  Pieces pieces;
  on(pieces, [] { return relu(row({1.0, -1.0})); });
  const Pieces::Pass again(pieces);
  CHECK_THROWS_WITH_AS(relu(row({1.0})),
                       "relu: called with 1 elements where there was relu with 2 before, expected "
                       "the same operations in the same order whatever the values",
                       ValueError);
  CHECK_THROWS_AS(max(row({1.0, 2.0})), ValueError);
}

TEST_CASE("passes nest, and outside of them nothing is held") {
  CHECK(Pieces::active() == nullptr);
  Pieces outer, inner;
  {
    const Pieces::Pass pass(outer);
    {
      const Pieces::Pass deeper(inner);
      CHECK(Pieces::active() == &inner);
    }
    CHECK(Pieces::active() == &outer);
  }
  CHECK(Pieces::active() == nullptr);
}
