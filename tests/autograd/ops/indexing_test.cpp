#include "autograd/ops/indexing.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Indices below `extent` that come back unevenly often.
Ids uneven_index(const Shape& shape, std::size_t extent) {
  Ids index(shape);
  for (std::size_t i = 0; i < index.size(); ++i) {
    index[i] = static_cast<std::int32_t>(i * i % extent);
  }
  return index;
}

}  // namespace

TEST_CASE("index_select takes parts along any axis, in the order of the indices") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({{1, 2, 3}, {4, 5, 6}}, dtype);
    const Tensor rows = index_select(x, 0, Ids::from({1, 1, 0}));
    CHECK(rows.shape() == Shape{3, 3});
    CHECK(rows.dtype() == dtype);
    check_values(rows, {4, 5, 6, 4, 5, 6, 1, 2, 3});
    const Tensor columns = index_select(x, -1, Ids::from({2, 0}));
    CHECK(columns.shape() == Shape{2, 2});
    check_values(columns, {3, 1, 6, 4});
  }
}

TEST_CASE("index_select replaces its axis by the axes of the index") {
  const Tensor x = random_leaf({2, 4, 3}, 1);
  const Tensor y = index_select(x, 1, Ids{{3, 0}, {1, 1}, {2, 3}});
  CHECK(y.shape() == Shape{2, 3, 2, 3});
  CHECK(y[1][2][1].to_vector() == x[1][3].to_vector());
  const Tensor one = index_select(x, 1, Ids(Shape{}, 2));
  CHECK(one.shape() == Shape{2, 3});
  CHECK(one[1].to_vector() == x[1][2].to_vector());
}

TEST_CASE("a tensor indexed with ids selects the examples of a batch, with their gradient") {
  const Tensor x = Tensor::from({{1, 2}, {3, 4}, {5, 6}}, DType::float64).require_gradient();
  Tape tape;
  const Tensor batch = x[Ids::from({2, 0, 2})];
  check_values(batch, {5, 6, 1, 2, 5, 6});
  tape.backward(batch, Tensor::from({{1, 2}, {3, 4}, {10, 20}}, DType::float64));
  check_values(x.gradient(), {3, 4, 0, 0, 11, 22});
}

TEST_CASE("the gradient of index_select adds over repeated indices, for each part of x alone") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::full({2, 3}, 9.0, dtype).require_gradient();
    Tape tape;
    tape.backward(index_select(x, 1, Ids::from({2, 0, 2})),
                  Tensor::from({{1, 2, 3}, {4, 5, 6}}, dtype));
    check_values(x.gradient(), {2, 0, 4, 5, 0, 10});
  }
}

TEST_CASE("index_select with 0 indices is empty and has zero gradient") {
  const Tensor x = Tensor::ones({2, 3, 2}).require_gradient();
  Tape tape;
  const Tensor y = index_select(x, 1, Ids());
  CHECK(y.shape() == Shape{2, 0, 2});
  tape.backward(y, Tensor::zeros({2, 0, 2}));
  check_values(x.gradient(), std::vector<double>(12, 0.0));
  CHECK(index_select(Tensor::zeros({0, 2}), 0, Ids()).shape() == Shape{0, 2});
}

TEST_CASE("index_select: NaN that is not selected affects neither the result nor the gradient") {
  const Tensor x = Tensor::from({1.0, not_a_number, 3.0}).require_gradient();
  Tape tape;
  const Tensor y = index_select(x, 0, Ids::from({2, 0}));
  check_values(y, {3.0, 1.0});
  tape.backward(sum(y));
  check_values(x.gradient(), {1.0, 0.0, 1.0});
  CHECK(std::isnan(index_select(x, 0, Ids::from({1})).item()));
}

TEST_CASE("the gradient of index_select agrees with differences along every axis") {
  const Tensor x = random_leaf({3, 4, 5}, 1);
  for (const std::ptrdiff_t axis : {0, 1, -1}) {
    CAPTURE(axis);
    const Ids index = uneven_index({2, 3}, 3);
    CHECK(gradient_error([&] { return index_select(x, axis, index); }, {x}) < 1e-6);
  }
}

TEST_CASE("index_select reports the position and the value of an index out of range") {
  const Tensor x = Tensor::zeros({2, 3});
  CHECK_THROWS_WITH_AS(index_select(x, 1, Ids{{0, 1}, {3, 2}}),
                       "index_select: index (1, 0) is 3, expected 0 <= index < 3", ValueError);
  CHECK_THROWS_WITH_AS(x[Ids::from({1, -1})],
                       "index_select: index (1) is -1, expected 0 <= index < 2", ValueError);
  CHECK_THROWS_WITH_AS(index_select(x, 2, Ids()),
                       "index_select: axis 2 does not exist, expected -2 <= axis < 2", ValueError);
  CHECK_THROWS_AS(index_select(Tensor::scalar(1.0), 0, Ids::from({0})), ValueError);
  CHECK_THROWS_AS(index_select(Tensor::zeros({1, 1, 1, 1, 1}), 0, Ids(Shape{1, 1, 1, 1, 1})),
                  ShapeError);
}

TEST_CASE("gather takes one element for each index, along any axis") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({{1, 2, 3}, {4, 5, 6}}, dtype);
    const Tensor along_rows = gather(x, 1, Ids{{2, 0, 2, 2}, {1, 1, 0, 2}});
    CHECK(along_rows.shape() == Shape{2, 4});
    CHECK(along_rows.dtype() == dtype);
    check_values(along_rows, {3, 1, 3, 3, 5, 5, 4, 6});
    check_values(gather(x, 0, Ids{{1, 0, 1}}), {4, 2, 6});
    check_values(gather(x, -1, Ids{{2}, {0}}), {3, 4});
  }
}

TEST_CASE("an index of gather may be smaller than x along the other axes") {
  const Tensor x = Tensor::from({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, DType::float64);
  const Tensor leaf = x.copied(DType::float64).require_gradient();
  Tape tape;
  const Tensor y = gather(leaf, 0, Ids{{2, 0}});
  check_values(y, {7, 2});
  tape.backward(y, Tensor::from({{10, 20}}, DType::float64));
  check_values(leaf.gradient(), {0, 20, 0, 0, 0, 0, 10, 0, 0});
}

TEST_CASE("the gradient of gather adds over repeated indices, and to existing gradients") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::zeros({2, 2}, dtype).require_gradient();
    Tape tape;
    const Tensor y = gather(x, 1, Ids{{1, 1, 1}, {0, 1, 0}});
    tape.backward(sum(x) + sum(y * Tensor::from({{1, 2, 3}, {4, 5, 6}}, dtype)));
    check_values(x.gradient(), {1, 7, 11, 6});
  }
}

TEST_CASE("gather with 0 indices is empty and has zero gradient") {
  const Tensor x = Tensor::ones({2, 3}).require_gradient();
  Tape tape;
  const Tensor y = gather(x, 1, Ids(Shape{2, 0}));
  CHECK(y.shape() == Shape{2, 0});
  tape.backward(y, Tensor::zeros({2, 0}));
  check_values(x.gradient(), std::vector<double>(6, 0.0));
}

TEST_CASE("the gradient of gather agrees with differences along every axis") {
  const Tensor x = random_leaf({3, 4, 5}, 1);
  CHECK(gradient_error([&] { return gather(x, 0, uneven_index({6, 4, 5}, 3)); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return gather(x, 1, uneven_index({2, 7, 3}, 4)); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return gather(x, 2, uneven_index({3, 4, 1}, 5)); }, {x}) < 1e-6);
}

TEST_CASE("index_select and gather of large tensors agree with loops, on any number of threads") {
  constexpr std::size_t outer = 40, extent = 30, inner = 50, chosen = 45;
  const Tensor x = random_leaf({outer, extent, inner}, 1);
  const Tensor dy = random_leaf({outer, chosen, inner}, 2).copied(DType::float64);
  const Ids whole = uneven_index({chosen}, extent);
  const Ids each = uneven_index({outer, chosen, inner}, extent);
  const auto index_at = [&](bool gathers, std::size_t o, std::size_t k, std::size_t i) {
    return static_cast<std::size_t>(gathers ? each[(o * chosen + k) * inner + i] : whole[k]);
  };
  for (const bool gathers : {false, true}) {
    CAPTURE(gathers);
    Tensor leaf = x.copied(DType::float64).require_gradient();
    const auto run = [&] {
      leaf.clear_gradient();
      Tape tape;
      const Tensor y = gathers ? gather(leaf, 1, each) : index_select(leaf, 1, whole);
      tape.backward(y, dy);
      auto results = y.to_vector();
      const auto gradient = leaf.gradient().to_vector();
      results.insert(results.end(), gradient.begin(), gradient.end());
      return results;
    };
    std::vector<double> y, dx(outer * extent * inner, 0.0);
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::size_t k = 0; k < chosen; ++k) {
        for (std::size_t i = 0; i < inner; ++i) {
          const std::size_t at = (o * extent + index_at(gathers, o, k, i)) * inner + i;
          y.push_back(x.values<double>()[at]);
          dx[at] += dy.values<double>()[(o * chosen + k) * inner + i];
        }
      }
    }
    y.insert(y.end(), dx.begin(), dx.end());
    CHECK(run() == y);
    CHECK(same_on_any_number_of_threads(run));
  }
}

TEST_CASE("gather refuses indices out of range and shapes that do not fit") {
  const Tensor x = Tensor::zeros({2, 3});
  CHECK_THROWS_WITH_AS(gather(x, 1, Ids{{0, 1}, {2, 3}}),
                       "gather: index (1, 1) is 3, expected 0 <= index < 3", ValueError);
  CHECK_THROWS_WITH_AS(gather(x, 0, Ids{{0, -2}}),
                       "gather: index (0, 1) is -2, expected 0 <= index < 2", ValueError);
  const char* expected =
      "expected the 2 axes of x, whose shape is (2, 3), and at most its extents except along axis ";
  CHECK_THROWS_WITH_AS(gather(x, 1, Ids(Shape{3, 1})),
                       (std::string("gather: index has shape (3, 1), ") + expected + "1").c_str(),
                       ShapeError);
  CHECK_THROWS_WITH_AS(gather(x, 0, Ids(Shape{2})),
                       (std::string("gather: index has shape (2), ") + expected + "0").c_str(),
                       ShapeError);
  CHECK_THROWS_AS(gather(x, 0, Ids(Shape{5, 4})), ShapeError);
  CHECK(gather(x, 0, Ids(Shape{5, 3})).shape() == Shape{5, 3});
  CHECK_THROWS_WITH_AS(gather(x, -3, Ids{{0}}),
                       "gather: axis -3 does not exist, expected -2 <= axis < 2", ValueError);
}

TEST_CASE("topk gives the largest elements in descending order and their indices") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({{3, 7, 5, 7}, {-1, -4, -2, -3}}, dtype).require_gradient();
    Tape tape;
    const auto [values, indices] = topk(x, 3);
    CHECK(values.shape() == Shape{2, 3});
    check_values(values, {7, 7, 5, -1, -2, -3});
    CHECK(indices == Ids{{1, 3, 2}, {0, 2, 3}});
    tape.backward(values, Tensor::from({{1, 2, 3}, {4, 5, 6}}, dtype));
    check_values(x.gradient(), {0, 1, 3, 2, 4, 0, 5, 6});
    const TopK columns = topk(x, 1, 0);
    check_values(columns.values, {3, 7, 5, 7});
    CHECK(columns.indices == Ids{{0, 0, 0, 0}});
  }
  const Tensor odd = Tensor::from({1.0, not_a_number, 2.0});
  CHECK(topk(odd, 2).indices == Ids::from({1, 2}));
  const Tensor x = random_leaf({3, 5, 4}, 1);
  CHECK(gradient_error([&] { return topk(x, 2, 1).values; }, {x}) < 1e-9);
  CHECK(gradient_error([&] { return topk(x, 4, -1).values; }, {x}) < 1e-9);
}

TEST_CASE("gradcheck of topk is not affected by a change of order next to the point") {
  const Tensor x = Tensor::from({1.0, 1.0 + 1e-9, 3.0}, DType::float64).require_gradient();
  CHECK(gradient_error([&] { return topk(x, 2).values; }, {x}) < 1e-6);
}

TEST_CASE("topk refuses a k greater than the extent of the axis") {
  const Tensor x = Tensor::zeros({2, 3});
  CHECK_THROWS_WITH_AS(
      topk(x, 4), "topk: k is 4, expected 1 to 3 (axis 1 of x, whose shape is (2, 3))", ValueError);
  CHECK_THROWS_AS(topk(x, 0), ValueError);
  CHECK_THROWS_AS(topk(x, 1, 2), ValueError);
}

TEST_CASE("topk_log_softmax is topk of log_softmax, in every bit") {
  for (const DType dtype : dtypes) {
    for (const std::size_t n : {1, 2, 7, 16, 63, 64, 65, 200, 1000}) {
      const Tensor x = random_leaf({5, n}, n).copied(dtype);
      for (const std::size_t k : {std::size_t{1}, (n + 1) / 2, n}) {
        const TopK expected = topk(log_softmax(x), k), found = topk_log_softmax(x, k);
        CHECK(found.values.to_vector() == expected.values.to_vector());
        CHECK(found.indices == expected.indices);
      }
    }
  }
}

TEST_CASE("topk_log_softmax takes the first of equal logits, and -inf only after all others") {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> logits(200, 1.0);
  logits[0] = logits[150] = -inf;
  logits[190] = logits[70] = 2.0;
  const TopK found = topk_log_softmax(Tensor::from(logits, DType::float64), 4);
  CHECK(found.indices == Ids::from({70, 190, 1, 2}));
  const TopK impossible = topk_log_softmax(Tensor::from({-inf, -inf}, DType::float64), 2);
  CHECK(impossible.indices == Ids::from({0, 1}));
  CHECK(impossible.values.to_vector() == std::vector<double>{-inf, -inf});
}

TEST_CASE("topk_log_softmax refuses a k greater than the number of classes, and recorded logits") {
  const Tensor x = random_leaf({2, 3}, 1);
  CHECK_THROWS_WITH_AS(topk_log_softmax(x, 4),
                       "topk_log_softmax: k is 4, expected 1 to 3 (x has shape (2, 3))",
                       ValueError);
  CHECK_THROWS_AS(topk_log_softmax(x, 0), ValueError);
  CHECK_THROWS_AS(topk_log_softmax(Tensor::scalar(1), 1), ShapeError);
  CHECK_NOTHROW(topk_log_softmax(x, 3));
  const Tape tape;
  CHECK_THROWS_AS(topk_log_softmax(x, 3), ValueError);
}

TEST_CASE("to_ids accepts whole numbers and refuses others with their position") {
  CHECK(to_ids(Tensor::from({{1, -2}, {0, 7}})) == Ids{{1, -2}, {0, 7}});
  CHECK(to_ids(Tensor::from({2147483647.0, -2147483648.0}, DType::float64)) ==
        Ids{2147483647, -2147483647 - 1});
  CHECK(to_ids(Tensor::scalar(3.0)).shape() == Shape{});
  CHECK_THROWS_WITH_AS(to_ids(Tensor::from({{1, 2}, {3, 4.5}})),
                       "to_ids: x [1, 1] is 4.5, expected a whole number in [-2^31, 2^31)",
                       ValueError);
  CHECK_THROWS_AS(to_ids(Tensor::from({2147483648.0}, DType::float64)), ValueError);
  CHECK_THROWS_AS(to_ids(Tensor::from({-2147483649.0}, DType::float64)), ValueError);
  CHECK_THROWS_AS(to_ids(Tensor::scalar(NAN)), ValueError);
}

TEST_CASE("to_tensor gives the ids as numbers") {
  const Tensor x = to_tensor(Ids{{4, -1}}, DType::float64);
  CHECK(x.shape() == Shape{1, 2});
  CHECK(x.to_vector() == std::vector<double>{4.0, -1.0});
  CHECK(to_tensor(Ids{2}).dtype() == DType::float32);
}

TEST_CASE("one_hot is 1 at the id and 0 elsewhere") {
  const Tensor y = one_hot(Ids{{2, 0}}, 3);
  CHECK(y.shape() == Shape{1, 2, 3});
  CHECK(y.dtype() == DType::float32);
  check_values(y, {0, 0, 1, 1, 0, 0});
  CHECK(one_hot(Ids::from({0}), 1, DType::float64).dtype() == DType::float64);
  CHECK_THROWS_WITH_AS(one_hot(Ids::from({1, 3}), 3), "one_hot: id (1) is 3, expected 0 <= id < 3",
                       ValueError);
  CHECK_THROWS_AS(one_hot(Ids::from({-1}), 3), ValueError);
}
