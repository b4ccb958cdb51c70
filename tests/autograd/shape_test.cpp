// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/shape.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/ids.h"
#include "autograd/ops/comparison.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/norms.h"
#include "autograd/random.h"
#include "autograd/tensor.h"
#include "tests/support/errors.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a shape has extents, a rank and a size") {
  const Shape shape = {2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape.size() == 24);
  CHECK(shape[1] == 3);
  CHECK(shape.back() == 4);
  CHECK(std::vector<std::size_t>(shape.begin(), shape.end()) == std::vector<std::size_t>{2, 3, 4});
  CHECK(to_string(shape) == "(2, 3, 4)");
}

TEST_CASE("a scalar has no axes and one element; an extent of 0 gives 0 elements") {
  CHECK(Shape{}.rank() == 0);
  CHECK(Shape{}.size() == 1);
  CHECK(to_string(Shape{}) == "()");
  CHECK(Shape{3, 0, 2}.size() == 0);
}

TEST_CASE("axes are inserted, erased and replaced at either end and in between") {
  const Shape shape = {2, 3, 4};
  CHECK(shape.inserted(0, 9) == Shape{9, 2, 3, 4});
  CHECK(shape.inserted(1, 9) == Shape{2, 9, 3, 4});
  CHECK(shape.inserted(3, 9) == Shape{2, 3, 4, 9});
  CHECK(Shape{}.inserted(0, 1) == Shape{1});
  CHECK(shape.erased(0) == Shape{3, 4});
  CHECK(shape.erased(1) == Shape{2, 4});
  CHECK(shape.erased(2) == Shape{2, 3});
  CHECK(shape.with_last(7) == Shape{2, 3, 7});
}

TEST_CASE("a shape holds 8 axes and rejects a ninth") {
  const Shape full = {1, 2, 1, 2, 1, 2, 1, 2};
  CHECK(full.size() == 16);
  check_error<ShapeError>("shape:|9|8", [&] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; });
  check_error<ShapeError>("shape:|(1, 2, 1, 2, 1, 2, 1, 2)|8", [&] { full.inserted(0, 1); });
}

TEST_CASE("broadcasting aligns the last axes and expands extents of 1, even to 0") {
  CHECK(broadcast_shape("f", {}, {}) == Shape{});
  CHECK(broadcast_shape("f", {2, 3}, {}) == Shape{2, 3});
  CHECK(broadcast_shape("f", {3}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast_shape("f", {2, 1}, {3}) == Shape{2, 3});
  CHECK(broadcast_shape("f", {4, 1, 3}, {2, 1}) == Shape{4, 2, 3});
  CHECK(broadcast_shape("f", {0}, {1}) == Shape{0});
  CHECK(broadcast_shape("f", {}, {2, 0}) == Shape{2, 0});
}

TEST_CASE("the error for shapes that do not broadcast names the axis and both extents") {
  check_error<ShapeError>("add:|(2, 3)|(4, 1, 5)|1|3|5", [&] {
    broadcast_shape("add", {2, 3}, {4, 1, 5});
  });
  check_error<ShapeError>("add:|(2, 3)|(5, 3)|2|5|1", [&] {
    broadcast_shape("add", {2, 3}, {5, 3});
  });
  CHECK_THROWS_AS(broadcast_shape("add", {0}, {2}), ShapeError);
}

TEST_CASE("a row-major offset is converted to an index along each axis") {
  CHECK(place_in({2, 3, 4}, 0) == "[0, 0, 0]");
  CHECK(place_in({2, 3, 4}, 4) == "[0, 1, 0]");
  CHECK(place_in({2, 3, 4}, 11) == "[0, 2, 3]");
  CHECK(place_in({2, 3, 4}, 18) == "[1, 1, 2]");
  CHECK(place_in({2, 3, 4}, 23) == "[1, 2, 3]");
  CHECK(place_in({}, 0) == "[]");
}

TEST_CASE("an axis counts from the front, or from the end if it is negative") {
  CHECK(resolve_axis("f", 0, 3) == 0);
  CHECK(resolve_axis("f", 2, 3) == 2);
  CHECK(resolve_axis("f", -1, 3) == 2);
  CHECK(resolve_axis("f", -3, 3) == 0);
  check_error<ValueError>("sum:|3|-3", [&] { resolve_axis("sum", 3, 3); });
  CHECK_THROWS_AS(resolve_axis("sum", -4, 3), ValueError);
  CHECK_THROWS_AS(resolve_axis("sum", 0, 0), ValueError);
}

TEST_CASE("axes outside of the rank are rejected, counted from the front or the end") {
  Shape shape{2, 3, 4};
  CHECK(shape[0] == 2);
  CHECK(shape[std::size_t{2}] == 4);
  CHECK(shape[-1] == 4);
  CHECK(shape[-3] == 2);
  shape[-2] = 7;
  CHECK(shape == Shape{2, 7, 4});
  check_error<ShapeError>("shape:|3|(2, 7, 4)|-3", [&] { (void)shape[3]; });
  CHECK_THROWS_AS((void)shape[-4], ShapeError);
  CHECK_THROWS_AS((void)shape[shape.rank()], ShapeError);
  CHECK_THROWS_AS((void)shape[std::size_t{0} - 1], ShapeError);  // does not wrap to index -1
  CHECK_THROWS_AS((void)Shape{}.back(), ShapeError);
  CHECK_THROWS_AS((void)Shape{}.with_last(2), ShapeError);
}

TEST_CASE("ids are made from rows, from a shape and a value, and from values") {
  const Ids rows{{1, 2, 3}, {4, 5, 6}};
  CHECK(rows.shape() == Shape{2, 3});
  CHECK(rows(1, 0) == 4);
  CHECK(rows[5] == 6);
  CHECK(rows == Ids(Shape{2, 3}, {1, 2, 3, 4, 5, 6}));
  CHECK(Ids(Shape{2, 2}, 7) == Ids{{7, 7}, {7, 7}});
  CHECK(Ids::zeros({2, 3}) == Ids{{0, 0, 0}, {0, 0, 0}});
  CHECK(Ids::arange(3) == Ids{0, 1, 2});
  CHECK(Ids::arange(0) == Ids());
  check_error<ValueError>("arange|2147483649|2^31", [] { Ids::arange(2'147'483'649U); });
  CHECK(Ids(std::vector<std::int32_t>{7, 8, 9}) == Ids(Shape{3}, {7, 8, 9}));
  CHECK(Ids().shape() == Shape{0});
  CHECK(Ids().size() == 0);
  CHECK(Ids{{5, 6}}.shape() == Shape{1, 2});
  CHECK(Ids{{5}}.shape() == Shape{1, 1});
  CHECK(Ids{4, 1, 1} == Ids(Shape{3}, {4, 1, 1}));
  CHECK(Ids({4, 1}) == Ids(Shape{2}, {4, 1}));
  CHECK(Ids{7}.shape() == Shape{1});
  CHECK(Ids::from({4, 1, 1}) == Ids(Shape{3}, {4, 1, 1}));
  CHECK(Ids::from({7}).shape() == Shape{1});
  CHECK(Ids::from({}) == Ids());
}

TEST_CASE("ids of different shapes differ, and copies are independent") {
  Ids a(Shape{4}, {1, 2, 3, 4});
  CHECK_FALSE(a == Ids{{1, 2}, {3, 4}});
  Ids b = a;
  b[0] = 9;
  CHECK(a[0] == 1);
}

TEST_CASE("values that do not fit a shape and rows of different lengths are rejected") {
  check_error<ShapeError>("ids:|3|(2, 2)|4", [&] { Ids(Shape{2, 2}, {1, 2, 3}); });
  check_error<ShapeError>("ids:|1|2", [&] { Ids{{1, 2}, {3}}; });
}

TEST_CASE("the position of an id is described by its indices") {
  CHECK(Ids::zeros({2, 3}).place(4) == "(1, 1)");
  CHECK(Ids::zeros({5}).place(4) == "(4)");
  CHECK(Ids::zeros({2, 3, 4}).place(23) == "(1, 2, 3)");
}

TEST_CASE("ids are indexed along their first axis, like tensors") {
  const Ids rows{{1, 2, 3}, {4, 5, 6}};
  CHECK(rows[Ids::from({1, 0, 1})] == Ids{{4, 5, 6}, {1, 2, 3}, {4, 5, 6}});
  CHECK(rows[Ids{{1}, {0}}] == Ids(Shape{2, 1, 3}, {4, 5, 6, 1, 2, 3}));
  CHECK(rows[Ids()].shape() == Shape{0, 3});
  CHECK(Ids::from({7, 8, 9})[Ids::from({2, 0})] == Ids::from({9, 7}));
  CHECK(Ids::from({7, 8, 9})[Ids{{2, 0}}] == Ids{{9, 7}});
  CHECK(Ids::zeros({2, 0})[Ids::from({1})].shape() == Shape{1, 0});
}

TEST_CASE("an out-of-range index into ids is rejected") {
  const Ids rows{{1, 2, 3}, {4, 5, 6}};
  check_error<ValueError>("ids:|(1, 0)|2|0|1|(2, 3)", [&] { rows[Ids{{0, 1}, {2, 0}}]; });
  CHECK_THROWS_AS(rows[Ids::from({-1})], ValueError);
  CHECK_THROWS_AS(Ids()[Ids::from({0})], ValueError);
  check_error<ShapeError>("ids:|the shape is ()", [&] { Ids::zeros({})[Ids::from({0})]; });
  CHECK_THROWS_AS(rows[Ids::zeros({1, 1, 1, 1, 1, 1, 1, 1})], ShapeError);
}

TEST_CASE("ids are joined along an existing or a new axis, like tensors") {
  const Ids rows{{1, 2}, {3, 4}};
  CHECK(concat({rows, Ids{{5}, {6}}}, 1) == Ids{{1, 2, 5}, {3, 4, 6}});
  CHECK(concat({rows, Ids{{7, 8}}}, 0) == Ids{{1, 2}, {3, 4}, {7, 8}});
  CHECK(concat({rows, Ids::zeros({2, 0}), rows}, -1) == Ids{{1, 2, 1, 2}, {3, 4, 3, 4}});
  CHECK(stack({Ids{1, 2}, Ids{3, 4}, Ids{5, 6}}, 0) == Ids{{1, 2}, {3, 4}, {5, 6}});
  CHECK(stack({Ids{1, 2}, Ids{3, 4}, Ids{5, 6}}, -1) == Ids{{1, 3, 5}, {2, 4, 6}});
  check_error<ShapeError>("concat:|ids 1|(1, 3)|(2, 2)|axis 0", [&] {
    concat({rows, Ids{{1, 2, 3}}}, 0);
  });
  check_error<ShapeError>("concat:|(2)|(2, 2)", [&] { concat({rows, Ids{1, 2}}, 0); });
  CHECK_THROWS_AS(concat({rows}, 2), ValueError);
  CHECK_THROWS_AS(concat(std::span<const Ids>(), 0), ValueError);
  check_error<ShapeError>("stack:|ids 1|(3)|(2)", [] { stack({Ids{1, 2}, Ids{1, 2, 3}}, 0); });
  CHECK_THROWS_AS(stack(std::span<const Ids>(), 0), ValueError);
}

TEST_CASE("ids are sliced and selected along any axis, like tensors") {
  const Ids rows{{1, 2, 3}, {4, 5, 6}};
  CHECK(slice(rows, 1, 0, -1) == Ids{{1, 2}, {4, 5}});
  CHECK(slice(rows, -1, 1, 3) == Ids{{2, 3}, {5, 6}});
  CHECK(slice(rows, 0, 1, 2) == Ids{{4, 5, 6}});
  CHECK(slice(rows, 1, 2, 2).shape() == Shape{2, 0});
  CHECK(slice(Ids(Shape{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), 1, 1, 2) ==
        Ids(Shape{2, 1, 2}, {3, 4, 7, 8}));
  CHECK(select(rows, 0, 1) == Ids::from({4, 5, 6}));
  CHECK(select(rows, 1, -1) == Ids::from({3, 6}));
  CHECK(select(rows, 1, -3) == Ids::from({1, 4}));
  check_error<ValueError>("slice:|[1, 4)|1|(2, 3)|0|3", [&] { slice(rows, 1, 1, 4); });
  CHECK_THROWS_AS(slice(rows, 1, 2, 1), ValueError);
  CHECK_THROWS_AS(slice(rows, 1, -4, 1), ValueError);
  CHECK_THROWS_AS(slice(rows, 2, 0, 1), ValueError);
  check_error<ValueError>("select:|2|0|(2, 3)|-2", [&] { select(rows, 0, 2); });
  CHECK_THROWS_AS(select(rows, 0, -3), ValueError);
}

TEST_CASE("rows of different lengths are padded to the longest") {
  CHECK(Ids::padded({{1, 2, 3}, {4}, {}}, 9) == Ids{{1, 2, 3}, {4, 9, 9}, {9, 9, 9}});
  CHECK(Ids::padded({{7}, {8}}, 0) == Ids{{7}, {8}});
  CHECK(Ids::padded({{}, {}}, 0).shape() == Shape{2, 0});
  CHECK(Ids::padded({}, 0).shape() == Shape{0, 0});
}

TEST_CASE("ids are printed row by row, with their shape") {
  CHECK(to_string(Ids{{4, 17}, {-1, 0}}) == "[[ 4, 17],\n [-1,  0]]  (2, 2) ids");
  CHECK(to_string(Ids()) == "[]  (0) ids");
  CHECK(to_string(Ids(Shape{}, 5)) == "5  () ids");
  std::ostringstream out;
  out << Ids::from({1, 2});
  CHECK(out.str() == "[1, 2]  (2) ids");
}

namespace {

/// A tensor of this shape with the values 0, 1, 2, ...
Tensor counted(const Shape& shape) {
  std::vector<double> values(shape.size());
  std::iota(values.begin(), values.end(), 0.0);
  return Tensor::from(shape, values, DType::float64);
}

}  // namespace

TEST_CASE("a tensor is printed row by row, with shape and element type") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(to_string(Tensor::scalar(2.5, DType::float32)) == "2.5  () float32");
  CHECK(to_string(Tensor::from({3}, {1.0, -0.25, 1e-9}, DType::float64)) ==
        "[    1, -0.25, 1e-09]  (3) float64");
  CHECK(to_string(Tensor::from({2, 2}, {1.0, 2.5, -3.0, nan}, DType::float32)) ==
        "[[  1, 2.5],\n"
        " [ -3, nan]]  (2, 2) float32");
  CHECK(to_string(Tensor::scalar(0.1, DType::float32)) == "0.1  () float32");
}

TEST_CASE("NaN is printed without a sign, in tensors and in errors") {
  const double nan = -std::numeric_limits<double>::quiet_NaN();
  REQUIRE(std::signbit(nan));
  CHECK(to_string(Tensor::scalar(nan, DType::float64)) == "nan  () float64");
  CHECK(to_string(Tensor::from({2}, {nan, -1.0}, DType::float32)) == "[nan,  -1]  (2) float32");
  const Tensor x = Tensor::from({1}, {nan}, DType::float64), zero = zeros_like(x);
  const RandomStream random(1);
  const auto error = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const ValueError& found) {
      return found.what();
    }
    return "no error";
  };
  const std::string errors[] = {
      error([&] { to_ids(x); }),
      error([&] { pow(x, nan); }),
      error([&] { clamp(x, nan, 1.0); }),
      error([&] { dropout(x, nan, random); }),
      error([&] { layer_norm(x, x, x, nan); }),
      error([&] { binary_cross_entropy_with_logits(zero, x); }),
      error([&] { random_uniform({1}, random, nan, 1.0); }),
      error([&] { random_normal({1}, random, 0.0, nan); }),
      error([&] { random_categorical(x, random); }),
      error([&] {
        cross_entropy(Tensor::zeros({1, 2}), Ids{0}, {.label_smoothing = nan});
      })};
  for (const std::string& each : errors) {
    CAPTURE(each);
    CHECK(each.find("nan") != std::string::npos);
    CHECK(each.find("-nan") == std::string::npos);
  }
}

TEST_CASE("printed blocks of a tensor with three axes are separated by an empty line") {
  CHECK(to_string(counted({2, 2, 1})) ==
        "[[[0],\n"
        "  [1]],\n"
        "\n"
        " [[2],\n"
        "  [3]]]  (2, 2, 1) float64");
}

TEST_CASE("tensors without values and empty handles can be printed") {
  CHECK(to_string(Tensor::zeros({0}, DType::float32)) == "[]  (0) float32");
  CHECK(to_string(Tensor::zeros({2, 0}, DType::float32)) == "[[],\n []]  (2, 0) float32");
  CHECK(to_string(Tensor()) == "(no tensor)");
}

TEST_CASE("a tensor of more than 1,000 values is printed with only the ends of each long axis") {
  CHECK(to_string(counted({1001})) == "[   0,    1,    2, ...,  998,  999, 1000]  (1001) float64");
  CHECK(to_string(counted({1000})).size() > 4000);
  const std::string text = to_string(counted({1001, 2}));
  CHECK(text ==
        "[[   0,    1],\n"
        " [   2,    3],\n"
        " [   4,    5],\n"
        " ...,\n"
        " [1996, 1997],\n"
        " [1998, 1999],\n"
        " [2000, 2001]]  (1001, 2) float64");
  // Leaving out the middle would not shorten an axis of seven.
  CHECK(to_string(counted({7, 200})).find("...,\n") == std::string::npos);
  CHECK(to_string(counted({8, 200})).find("...,\n") != std::string::npos);
}

TEST_CASE("tensors and shapes can be printed to a stream") {
  std::ostringstream out;
  out << Tensor::scalar(3.0, DType::float64) << ", " << Shape{2, 3} << " and " << Shape{};
  CHECK(out.str() == "3  () float64, (2, 3) and ()");
}
