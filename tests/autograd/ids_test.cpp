#include "autograd/ids.h"

#include <doctest/doctest.h>

#include "autograd/error.h"

using namespace tapestry;

TEST_CASE("ids are made from rows, from a shape and a value, and from values") {
  const Ids rows{{1, 2, 3}, {4, 5, 6}};
  CHECK(rows.shape() == Shape{2, 3});
  CHECK(rows(1, 0) == 4);
  CHECK(rows[5] == 6);
  CHECK(rows == Ids(Shape{2, 3}, {1, 2, 3, 4, 5, 6}));
  CHECK(Ids(Shape{2, 2}, 7) == Ids{{7, 7}, {7, 7}});
  CHECK(Ids(Shape{3})[2] == 0);
  CHECK(Ids(std::vector<std::int32_t>{7, 8, 9}) == Ids(Shape{3}, {7, 8, 9}));
  CHECK(Ids().shape() == Shape{0});
  CHECK(Ids().size() == 0);
  CHECK(Ids{{5, 6}}.shape() == Shape{1, 2});
  CHECK(Ids{{5}}.shape() == Shape{1, 1});
  CHECK(Ids::from({4, 1, 1}) == Ids(Shape{3}, {4, 1, 1}));
  CHECK(Ids::from({7}).shape() == Shape{1});
  CHECK(Ids::from({}) == Ids());
}

TEST_CASE("ids of another shape are other ids, and copies are independent") {
  Ids a(Shape{4}, {1, 2, 3, 4});
  CHECK_FALSE(a == Ids{{1, 2}, {3, 4}});
  Ids b = a;
  b[0] = 9;
  CHECK(a[0] == 1);
}

TEST_CASE("values that do not fit a shape and rows of different lengths are refused") {
  CHECK_THROWS_WITH_AS(Ids(Shape{2, 2}, {1, 2, 3}),
                       "ids: 3 values given for shape (2, 2), expected 4", ShapeError);
  CHECK_THROWS_WITH_AS((Ids{{1, 2}, {3}}),
                       "ids: a row has 1 values, expected 2 as in the first row", ShapeError);
}

TEST_CASE("a position is named by its indices") {
  CHECK(Ids(Shape{2, 3}).place(4) == "(1, 1)");
  CHECK(Ids(Shape{5}).place(4) == "(4)");
  CHECK(Ids(Shape{2, 3, 4}).place(23) == "(1, 2, 3)");
}
