#include "autograd/frozen_branches.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/comparison.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/reductions.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor row(std::initializer_list<double> values, DType dtype = DType::float64) {
  return Tensor::from({values.size()}, std::vector<double>(values), dtype);
}

/// f() in a pass over `branches`.
template <class F>
std::vector<double> on(FrozenBranches& branches, const F& f) {
  const FrozenBranches::Pass pass(branches);
  return values_of(f());
}

}  // namespace

TEST_CASE("relu takes the branches of the first pass, except for elements at the kink") {
  for (const DType dtype : dtypes) {
    FrozenBranches branches;
    CHECK(on(branches, [&] {
            return relu(row({1.0, -1.0, 0.0, 0.0}, dtype));
          }) == std::vector{1.0, 0.0, 0.0, 0.0});
    CHECK(on(branches, [&] {
            return relu(row({-2.0, 3.0, 4.0, -5.0}, dtype));
          }) == std::vector{-2.0, 0.0, 4.0, 0.0});
    CHECK(values_of(relu(row({-2.0, 3.0}, dtype))) == std::vector{0.0, 3.0});
  }
}

TEST_CASE("a comparison keeps its value, unless both operands were equal in the first pass") {
  FrozenBranches branches;
  const Tensor zeros = Tensor::zeros({3}, DType::float64);
  const auto positive = [&](std::initializer_list<double> values) {
    return on(branches, [&] { return less(zeros, row(values)); });
  };
  CHECK(positive({1.0, -1.0, 0.0}) == std::vector{1.0, 0.0, 0.0});
  CHECK(positive({-2.0, 2.0, 2.0}) == std::vector{1.0, 0.0, 1.0});
}

TEST_CASE("relu_dropout takes the branches of the first pass and drops the same elements") {
  const RandomStream stream = RandomStream(1).named("dropout");
  FrozenBranches branches;
  const Tensor up = Tensor::full({200}, 1.0, DType::float64);
  const Tensor down = Tensor::full({200}, -1.0, DType::float64);
  const auto first = on(branches, [&] { return relu_dropout(up, 0.5, stream); });
  CHECK(first == values_of(relu_dropout(up, 0.5, stream)));
  auto moved = on(branches, [&] { return relu_dropout(down, 0.5, stream); });
  for (double& value : moved) value = -value;
  CHECK(moved == first);
}

TEST_CASE("max takes the element that was the largest in the first pass, except at ties") {
  FrozenBranches branches;
  const auto largest = [](std::initializer_list<double> values) {
    return max(Tensor::from({2, 3}, std::vector<double>(values), DType::float64), {0});
  };
  CHECK(on(branches, [&] {
          return largest({1.0, 5.0, 7.0, 2.0, 4.0, 7.0});
        }) == std::vector{2.0, 5.0, 7.0});
  CHECK(on(branches, [&] {
          return largest({9.0, 5.0, 6.0, 2.0, 8.0, 7.0});
        }) == std::vector{2.0, 5.0, 7.0});
}

TEST_CASE("frozen branches: calls are identified by their order, which every pass begins anew") {
  FrozenBranches branches;
  const auto both = [](double a, double b) {
    return std::vector{relu(row({a})).item(), relu(row({b})).item()};
  };
  for (int pass = 0; pass < 2; ++pass) {
    const FrozenBranches::Pass again(branches);
    CHECK(both(1.0, -1.0) == std::vector{1.0, 0.0});
  }
  const FrozenBranches::Pass again(branches);
  CHECK(both(-1.0, 1.0) == std::vector{-1.0, 0.0});
}

TEST_CASE("argmax gives the indices of the first pass, except where maxima were equal") {
  const auto largest = [](std::initializer_list<double> values) {
    const Ids index = argmax(row(values).viewed_as({2, 2}));
    return std::vector(index.begin(), index.end());
  };
  FrozenBranches branches;
  {
    const FrozenBranches::Pass first(branches);
    CHECK(largest({1.0, 2.0, 3.0, 3.0}) == std::vector{1, 0});
  }
  const FrozenBranches::Pass again(branches);
  CHECK(largest({2.0, 1.0, 3.0, 4.0}) == std::vector{1, 1});
}

TEST_CASE("operations other than those of the first pass are refused") {
  FrozenBranches branches;
  on(branches, [] { return relu(row({1.0, -1.0})); });
  const FrozenBranches::Pass again(branches);
  CHECK_THROWS_WITH_AS(relu(row({1.0})),
                       "relu: called with 1 elements where there was relu with 2 before, expected "
                       "the same operations in the same order whatever the values",
                       ValueError);
  CHECK_THROWS_AS(max(row({1.0, 2.0})), ValueError);
}

TEST_CASE("frozen branches: passes nest, and nothing is frozen outside of them") {
  CHECK(execution_context().frozen_branches == nullptr);
  FrozenBranches outer, inner;
  {
    const FrozenBranches::Pass pass(outer);
    {
      const FrozenBranches::Pass deeper(inner);
      CHECK(execution_context().frozen_branches == &inner);
    }
    CHECK(execution_context().frozen_branches == &outer);
  }
  CHECK(execution_context().frozen_branches == nullptr);
}
