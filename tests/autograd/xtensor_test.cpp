// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/xtensor.h"

#include <doctest/doctest.h>

#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("as_xtensor() has the shape and memory of the tensor") {
  const Tensor x = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, DType::float32);
  const auto view = as_xtensor<float>(x);
  CHECK(view.dimension() == 2);
  CHECK(view.shape(0) == 2);
  CHECK(view.shape(1) == 3);
  CHECK(view(1, 0) == 4.0F);
  CHECK(view.data() == x.values<float>().data());
  CHECK(xt::sum(view)() == 21.0F);
}

TEST_CASE("as_xtensor() accepts scalars and tensors without elements") {
  const Tensor scalar = Tensor::scalar(2.5, DType::float64);
  CHECK(as_xtensor<double>(scalar).dimension() == 0);
  CHECK(as_xtensor<double>(scalar)() == 2.5);
  CHECK(as_xtensor<double>(Tensor::zeros({0, 3}, DType::float64)).size() == 0);
}

TEST_CASE("to_tensor() converts any xtensor expression to the given element type") {
  const xt::xarray<double> a = {{1.0, 2.0}, {3.0, 4.0}};
  for (const DType dtype : dtypes) {
    const Tensor y = to_tensor(2.0 * a + 1.0, dtype);
    CHECK(y.shape() == Shape{2, 2});
    CHECK(y.dtype() == dtype);
    check_values(y, {3.0, 5.0, 7.0, 9.0});
  }
  check_values(to_tensor(xt::view(a, xt::all(), 1), DType::float64), {2.0, 4.0});
  check_values(to_tensor(xt::transpose(a), DType::float64), {1.0, 3.0, 2.0, 4.0});
  const xt::xarray<int> whole = {1, 2, 3};
  check_values(to_tensor(whole, DType::float32), {1.0, 2.0, 3.0});
}

TEST_CASE("a tensor converted to an xtensor and back is equal") {
  const Tensor x = Tensor::from({2, 1, 2}, {1.0, -2.0, 3.5, 0.0}, DType::float64);
  const Tensor back = to_tensor(as_xtensor<double>(x), DType::float64);
  CHECK(back.shape() == x.shape());
  check_values(back, values_of(x));
}

TEST_CASE("as_xtensor rejects an element type that differs from the tensor's") {
  CHECK_THROWS_AS(as_xtensor<double>(Tensor::zeros({2}, DType::float32)), DTypeError);
}

TEST_CASE("ids convert to xtensor expressions, and integer expressions convert to ids") {
  const Ids ids{{1, 2, 3}, {4, 5, 6}};
  CHECK(xt::sum(as_xtensor(ids))() == 21);
  CHECK(as_xtensor(ids)(1, 2) == 6);
  const xt::xarray<int> numbers = {{1, 2}, {3, 4}};
  CHECK(to_ids(numbers + 1) == Ids{{2, 3}, {4, 5}});
  CHECK(to_ids(xt::view(numbers, xt::all(), 1)) == Ids(Shape{2}, {2, 4}));
  CHECK(to_ids(xt::transpose(numbers)) == Ids{{1, 3}, {2, 4}});
}

TEST_CASE("as_xtensor() of a gradient makes no copy and outlives the handle") {
  Tensor w = Tensor::from({2, 2}, {1.0, 2.0, 3.0, 4.0}).set_requires_grad(true);
  {
    Tape tape;
    tape.backward(sum(square(w)));
  }
  const auto gradient = as_xtensor<float>(w.grad());
  CHECK(gradient.data() == w.grad().values<float>().data());
  CHECK(gradient == xt::xarray<float>{{2.0F, 4.0F}, {6.0F, 8.0F}});
  w = Tensor();
  CHECK(xt::sum(gradient)() == 20.0F);
}

TEST_CASE("an xtensor adaptor remains valid after the tensor is destroyed") {
  const auto view = as_xtensor<double>(Tensor::full({100}, 3.0, DType::float64));
  const Tensor other = Tensor::full({100}, 5.0, DType::float64);
  CHECK(other.values<double>().data() != view.data());
  CHECK(xt::sum(view)() == 300.0);
  const auto copy = view;
  CHECK(copy.data() == view.data());
}

TEST_CASE("an assignment to a mutable adaptor changes the tensor") {
  Tensor w = Tensor::from({2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}).set_requires_grad(true);
  Tape tape;
  tape.backward(sum(w));
  as_mutable_xtensor<float>(w) -= 0.5F * as_xtensor<float>(w.grad());
  check_values(w, {0.5, 1.5, 2.5, 3.5, 4.5, 5.5});
  auto view = as_mutable_xtensor<float>(w);
  CHECK(view.data() == w.values<float>().data());
  xt::row(view, 1) = xt::xarray<float>{7.0F, 8.0F, 9.0F};
  check_values(w, {0.5, 1.5, 2.5, 7.0, 8.0, 9.0});
  CHECK_THROWS_AS(as_mutable_xtensor<double>(w), DTypeError);
}

TEST_CASE("to_tensor() of an expression returns float32 by default") {
  const xt::xarray<double> a = {1.0, 2.0};
  CHECK(to_tensor(a / 3.0).dtype() == DType::float32);
  check_values(to_tensor(a > 1.0), {0.0, 1.0});
  check_values(to_tensor(xt::xarray<double>(2.5)), {2.5});
  CHECK(to_tensor(xt::xarray<double>(2.5)).shape() == Shape{});
  CHECK(to_tensor(xt::zeros<float>({2, 0})).shape() == Shape{2, 0});
  const xt::xarray<double, xt::layout_type::column_major> columns = {{1.0, 2.0}, {3.0, 4.0}};
  check_values(to_tensor(columns), {1.0, 2.0, 3.0, 4.0});
}
