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

TEST_CASE("ids are indexed along their first axis, as tensors are") {
  const Ids rows{{1, 2, 3}, {4, 5, 6}};
  CHECK(rows[Ids::from({1, 0, 1})] == Ids{{4, 5, 6}, {1, 2, 3}, {4, 5, 6}});
  CHECK(rows[Ids{{1}, {0}}] == Ids(Shape{2, 1, 3}, {4, 5, 6, 1, 2, 3}));
  CHECK(rows[Ids()].shape() == Shape{0, 3});
  CHECK(Ids::from({7, 8, 9})[Ids::from({2, 0})] == Ids::from({9, 7}));
  CHECK(Ids::from({7, 8, 9})[Ids{{2, 0}}] == Ids{{9, 7}});
  CHECK(Ids(Shape{2, 0})[Ids::from({1})].shape() == Shape{1, 0});
}

TEST_CASE("an index that ids do not have is refused") {
  const Ids rows{{1, 2, 3}, {4, 5, 6}};
  CHECK_THROWS_WITH_AS((rows[Ids{{0, 1}, {2, 0}}]),
                       "ids: the index at (1, 0) is 2, expected 0 to 1 (shape is (2, 3))",
                       ValueError);
  CHECK_THROWS_AS(rows[Ids::from({-1})], ValueError);
  CHECK_THROWS_AS(Ids()[Ids::from({0})], ValueError);
  CHECK_THROWS_WITH_AS(Ids(Shape{})[Ids::from({0})],
                       "ids: the shape is (), expected an axis to index", ShapeError);
  CHECK_THROWS_AS(rows[Ids(Shape{1, 1, 1, 1, 1, 1, 1, 1})], ShapeError);
}
