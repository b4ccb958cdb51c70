#include "autograd/ids.h"

#include <doctest/doctest.h>

#include <sstream>

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
  CHECK(Ids{4, 1, 1} == Ids(Shape{3}, {4, 1, 1}));
  CHECK(Ids({4, 1}) == Ids(Shape{2}, {4, 1}));
  CHECK(Ids{7}.shape() == Shape{1});
  CHECK(Ids::from({4, 1, 1}) == Ids(Shape{3}, {4, 1, 1}));
  CHECK(Ids::from({7}).shape() == Shape{1});
  CHECK(Ids::from({}) == Ids());
}

TEST_CASE("ids of another shape differ, and copies are independent") {
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

TEST_CASE("the position of an id is described by its indices") {
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

TEST_CASE("an index out of range of ids is refused") {
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

TEST_CASE("ids are sliced and selected along any axis, as tensors are") {
  const Ids rows{{1, 2, 3}, {4, 5, 6}};
  CHECK(slice(rows, 1, 0, -1) == Ids{{1, 2}, {4, 5}});
  CHECK(slice(rows, -1, 1, 3) == Ids{{2, 3}, {5, 6}});
  CHECK(slice(rows, 0, 1, 2) == Ids{{4, 5, 6}});
  CHECK(slice(rows, 1, 2, 2).shape() == Shape{2, 0});
  CHECK(slice(Ids(Shape{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), 1, 1, 2) ==
        Ids(Shape{2, 1, 2}, {3, 4, 7, 8}));
  CHECK(select(rows, 0, 1) == Ids::from({4, 5, 6}));
  CHECK(select(rows, 1, -1) == Ids::from({3, 6}));
  CHECK_THROWS_WITH_AS(slice(rows, 1, 1, 4),
                       "slice: [1, 4) of axis 1 of ids, whose shape is (2, 3), expected 0 <= begin "
                       "<= end <= 3, counted from the back if negative",
                       ValueError);
  CHECK_THROWS_AS(slice(rows, 1, 2, 1), ValueError);
  CHECK_THROWS_AS(slice(rows, 1, -4, 1), ValueError);
  CHECK_THROWS_AS(slice(rows, 2, 0, 1), ValueError);
  CHECK_THROWS_WITH_AS(select(rows, 0, 2),
                       "select: index 2 of axis 0 of ids, whose shape is (2, 3), expected -2 <= "
                       "index < 2",
                       ValueError);
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
