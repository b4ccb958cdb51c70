#include "autograd/ops/indexing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// Ids (rows, length) that come back unevenly often.
Ids uneven_ids(std::size_t rows, std::size_t length, std::size_t vocabulary) {
  Ids ids(Shape{rows, length});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids.data()[i] = static_cast<std::int32_t>(i * i % vocabulary);
  }
  return ids;
}

}  // namespace

TEST_CASE("embedding looks up a row for each id and multiplies it by the scale") {
  for (const DType dtype : dtypes) {
    const Tensor weight = Tensor::from({3, 2}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, dtype);
    const Ids ids{{2, 0}, {0, 1}};
    const Tensor y = embedding(weight, ids);
    CHECK(y.shape() == Shape{2, 2, 2});
    check_values(y, {5.0, 6.0, 1.0, 2.0, 1.0, 2.0, 3.0, 4.0});
    check_values(embedding(weight, Ids{{1}}, std::nullopt, 0.5), {1.5, 2.0});
    check_values(embedding(weight, Ids{{1}}, 1), {3.0, 4.0});
  }
}

TEST_CASE("the gradient of embedding adds over repeated ids and is 0 for absent ones") {
  for (const DType dtype : dtypes) {
    const Tensor weight = Tensor::full({4, 2}, 9.0, dtype).require_gradient();
    Tape tape;
    tape.backward(embedding(weight, Ids{{3, 0, 3}}, std::nullopt, 2.0),
                  Tensor::from({1, 3, 2}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, dtype));
    check_values(weight.gradient(), {6.0, 8.0, 0.0, 0.0, 0.0, 0.0, 12.0, 16.0});
  }
}

TEST_CASE("the padding row of an embedding gets no gradient") {
  const Tensor weight = Tensor::zeros({2, 1}, DType::float32).require_gradient();
  Tape tape;
  tape.backward(embedding(weight, Ids{{0, 1, 1}}, 1),
                Tensor::from({1, 3, 1}, {1.0, 2.0, 3.0}, DType::float32));
  check_values(weight.gradient(), {1.0, 0.0});
}

TEST_CASE("an embedding used twice adds both gradients, except in the padding row") {
  const Tensor weight = Tensor::zeros({3, 1}, DType::float32).require_gradient();
  Tape tape;
  tape.backward(embedding(weight, Ids{{0, 2}}, 2) + embedding(weight, Ids{{1, 0}}, 2),
                Tensor::from({1, 2, 1}, {1.0, 10.0}, DType::float32));
  check_values(weight.gradient(), {11.0, 1.0, 0.0});
}

TEST_CASE("embedding ignores a NaN gradient at the padding row") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor weight = Tensor::zeros({3, 1}, DType::float64).require_gradient();
  Tape tape;
  tape.backward(embedding(weight, Ids{{2, 0, 0}, {2, 1, 0}}, 0),
                Tensor::from({2, 3, 1}, {1.0, nan, nan, 2.0, 4.0, nan}, DType::float64));
  check_values(weight.gradient(), {0.0, 4.0, 3.0});
}

TEST_CASE("embedding: one id in every place, and padding in every place") {
  for (const DType dtype : dtypes) {
    for (const std::size_t d : {1, 7, 8, 16, 33}) {
      const Tensor weight = Tensor::zeros({2, d}, dtype).require_gradient();
      const Ids ones(Shape{5, 40}, 1);
      for (const std::int32_t padding : {0, 1}) {
        Tape tape;
        tape.backward(embedding(weight, ones, padding), Tensor::full({5, 40, d}, 0.5, dtype));
      }
      std::vector<double> expected(2 * d, 0.0);
      std::fill(expected.begin() + static_cast<std::ptrdiff_t>(d), expected.end(), 100.0);
      CHECK(values_of(weight.gradient()) == expected);
    }
  }
}

TEST_CASE("embedding of 0 ids is empty and has zero gradient") {
  const Tensor weight = Tensor::full({2, 1}, 1.0, DType::float32).require_gradient();
  Tape tape;
  const Tensor y = embedding(weight, Ids(Shape{2, 0}));
  CHECK(y.shape() == Shape{2, 0, 1});
  tape.backward(y, Tensor::zeros({2, 0, 1}, DType::float32));
  check_values(weight.gradient(), {0.0, 0.0});
}

TEST_CASE("the gradient of embedding agrees with differences, for vectors of any length") {
  for (const std::size_t d : {1, 7, 8, 9, 16, 17, 130}) {
    const Tensor weight = random_leaf({6, d}, d);
    const Ids ids = uneven_ids(3, 4, 5);
    CAPTURE(d);
    CHECK(gradient_error([&] { return embedding(weight, ids, std::nullopt, 1.7); }, {weight}) <
          1e-6);
  }
}

TEST_CASE("a large embedding agrees with loops, in every block of ids and strip of columns") {
  constexpr std::size_t vocabulary = 300, d = 270, rows = 9, length = 50;
  constexpr std::int32_t padding = 200;
  constexpr double scale = 0.5;
  const Tensor weight = random_leaf({vocabulary, d}, 1);
  Ids ids = uneven_ids(rows, length, vocabulary);
  ids(8, 40) = 299, ids(3, 7) = padding;
  const Tensor dy = random_leaf({rows, length, d}, 2).copied(DType::float64);
  Tape tape;
  const Tensor y = embedding(weight, ids, padding, scale);
  tape.backward(y, dy);
  std::vector<double> expected(vocabulary * d, 0.0);
  std::size_t wrong = 0;
  for (std::size_t place = 0; place < rows * length; ++place) {
    const auto id = static_cast<std::size_t>(ids.data()[place]);
    for (std::size_t c = 0; c < d; ++c) {
      wrong += y.values<double>()[place * d + c] != scale * weight.values<double>()[id * d + c];
      if (id != padding) expected[id * d + c] += scale * dy.values<double>()[place * d + c];
    }
  }
  CHECK(wrong == 0);
  const auto gradient = values_of(weight.gradient());
  double worst = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(gradient[i] - expected[i]));
  }
  CHECK(worst < 1e-12);
}

TEST_CASE("the gradient of a large embedding has the same bits on any number of threads") {
  Tensor weight = Tensor::zeros({300, 200}, DType::float32).require_gradient();
  const Tensor dy = random_leaf({8, 100, 200}, 1).copied(DType::float32);
  CHECK(same_on_any_number_of_threads([&] {
    weight.clear_gradient();
    Tape tape;
    tape.backward(embedding(weight, uneven_ids(8, 100, 300)), dy);
    return values_of(weight.gradient());
  }));
}

TEST_CASE("embedding refuses ids outside the vocabulary and weights that have not two axes") {
  const Tensor weight = Tensor::zeros({5, 2}, DType::float32);
  CHECK_THROWS_WITH_AS(embedding(weight, Ids{{0, 1}, {4, 5}}),
                       "embedding: id (1, 1) is 5, expected 0 <= id < 5", ValueError);
  CHECK_THROWS_WITH_AS(embedding(weight, Ids{{0, -1}}),
                       "embedding: id (0, 1) is -1, expected 0 <= id < 5", ValueError);
  CHECK_THROWS_WITH_AS(embedding(Tensor::zeros({5}, DType::float32), Ids{{0}}),
                       "embedding: weight has shape (5), expected (vocabulary, d)", ShapeError);
}

TEST_CASE("embedding accepts ids of any shape") {
  const Tensor weight = random_leaf({5, 2}, 1);
  const Tensor vector = embedding(weight, Ids(Shape{3}, {4, 0, 4}));
  CHECK(vector.shape() == Shape{3, 2});
  CHECK(values_of(vector)[4] == values_of(weight)[8]);
  CHECK(embedding(weight, Ids(Shape{2, 1, 3})).shape() == Shape{2, 1, 3, 2});
  CHECK(embedding(weight, Ids(Shape{}, 3)).shape() == Shape{2});
  CHECK_THROWS_WITH_AS(embedding(weight, Ids(Shape{2}, {1, 5})),
                       "embedding: id (1) is 5, expected 0 <= id < 5", ValueError);
}
