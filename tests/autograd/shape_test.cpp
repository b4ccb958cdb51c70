#include "autograd/shape.h"

#include <doctest/doctest.h>

#include <vector>

#include "autograd/error.h"

using namespace tapestry;

TEST_CASE("a shape knows its extents, its rank and its size") {
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

TEST_CASE("shapes are equal if their extents are") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK(Shape{2, 3} != Shape{3, 2});
  CHECK(Shape{2} != Shape{2, 1});
  CHECK(Shape{} != Shape{1});
}

TEST_CASE("the product over a range of axes is 1 for an empty range") {
  const Shape shape = {2, 3, 4};
  CHECK(shape.product(0, 2) == 6);
  CHECK(shape.product(1, 3) == 12);
  CHECK(shape.product(1, 1) == 1);
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

TEST_CASE("a shape holds 8 axes and refuses a ninth") {
  const Shape full = {1, 2, 1, 2, 1, 2, 1, 2};
  CHECK(full.size() == 16);
  CHECK_THROWS_WITH_AS((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}),
                       "shape: 9 axes given, at most 8 are supported", ShapeError);
  CHECK_THROWS_WITH_AS(full.inserted(0, 1),
                       "shape: (1, 2, 1, 2, 1, 2, 1, 2) has no room for another axis (at most 8)",
                       ShapeError);
}

TEST_CASE("broadcasting aligns the last axes and expands 1, to 0 as well") {
  CHECK(broadcast_shape("f", {}, {}) == Shape{});
  CHECK(broadcast_shape("f", {2, 3}, {}) == Shape{2, 3});
  CHECK(broadcast_shape("f", {3}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast_shape("f", {2, 1}, {3}) == Shape{2, 3});
  CHECK(broadcast_shape("f", {4, 1, 3}, {2, 1}) == Shape{4, 2, 3});
  CHECK(broadcast_shape("f", {0}, {1}) == Shape{0});
  CHECK(broadcast_shape("f", {}, {2, 0}) == Shape{2, 0});
}

TEST_CASE("shapes that do not broadcast are refused with the axis and both extents") {
  CHECK_THROWS_WITH_AS(broadcast_shape("add", {2, 3}, {4, 1, 5}),
                       "add: shapes (2, 3) and (4, 1, 5) do not broadcast: axis 1 from the end has "
                       "3 and 5, expected equal extents or 1",
                       ShapeError);
  CHECK_THROWS_WITH_AS(broadcast_shape("add", {2, 3}, {5, 3}),
                       "add: shapes (2, 3) and (5, 3) do not broadcast: axis 2 from the end has "
                       "2 and 5, expected equal extents or 1",
                       ShapeError);
  CHECK_THROWS_AS(broadcast_shape("add", {0}, {2}), ShapeError);
}

TEST_CASE("the longer of two shapes may come first; errors list extents in the order of shapes") {
  CHECK_THROWS_WITH_AS(broadcast_shape("mul", {4, 2, 5}, {3, 1}),
                       "mul: shapes (4, 2, 5) and (3, 1) do not broadcast: axis 2 from the end has "
                       "2 and 3, expected equal extents or 1",
                       ShapeError);
  CHECK_THROWS_WITH_AS(broadcast_shape("mul", {3, 1}, {4, 2, 5}),
                       "mul: shapes (3, 1) and (4, 2, 5) do not broadcast: axis 2 from the end has "
                       "3 and 2, expected equal extents or 1",
                       ShapeError);
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
  CHECK_THROWS_WITH_AS(resolve_axis("sum", 3, 3),
                       "sum: axis 3 does not exist, expected -3 <= axis < 3", ValueError);
  CHECK_THROWS_AS(resolve_axis("sum", -4, 3), ValueError);
  CHECK_THROWS_AS(resolve_axis("sum", 0, 0), ValueError);
}

TEST_CASE("axes outside of the rank are refused, counted from the front or the end") {
  Shape shape{2, 3, 4};
  CHECK(shape[0] == 2);
  CHECK(shape[std::size_t{2}] == 4);
  CHECK(shape[-1] == 4);
  CHECK(shape[-3] == 2);
  shape[-2] = 7;
  CHECK(shape == Shape{2, 7, 4});
  CHECK_THROWS_WITH_AS((void)shape[3],
                       "shape: axis 3 of (2, 7, 4) does not exist, expected -3 <= axis < 3",
                       ShapeError);
  CHECK_THROWS_AS((void)shape[-4], ShapeError);
  CHECK_THROWS_AS((void)shape[shape.rank()], ShapeError);
  CHECK_THROWS_AS((void)shape[std::size_t{0} - 1], ShapeError);  // no -1
  CHECK_THROWS_AS((void)Shape{}.back(), ShapeError);
  CHECK_THROWS_AS((void)Shape{}.with_last(2), ShapeError);
}
