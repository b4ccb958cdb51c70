#include "layers/embedding.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("an embedding looks up the row of an id and multiplies it by the scale if there is one") {
  for (const DType dtype : dtypes) {
    Parameters parameters(dtype, 1);
    const Embedding plain(Scope(parameters) / "plain", 3, 4);
    const Embedding scaled(Scope(parameters) / "scaled", 3, 4, {.scale = 2});
    set_values(parameters, "plain.weight", {1, 2, 3, 4, 5, 6, 7, 8, -1, 0, 1, 2});
    set_values(parameters, "scaled.weight", {1, 2, 3, 4, 5, 6, 7, 8, -1, 0, 1, 2});
    const Ids ids{{2, 0}, {0, 1}};
    CHECK(plain(ids).shape() == Shape{2, 2, 4});
    check_values(plain(ids), {-1, 0, 1, 2, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8});
    check_values(scaled(ids), {-2, 0, 2, 4, 2, 4, 6, 8, 2, 4, 6, 8, 10, 12, 14, 16});
  }
}

TEST_CASE("the initial embedding matrix has variance 1 / d_model") {
  Parameters parameters(DType::float64, 1);
  const Embedding layer(Scope(parameters) / "source_embedding", 300, 100);
  CHECK(listing(parameters) == std::vector<std::string>{"source_embedding.weight (300, 100)"});
  double squares = 0.0;
  for (const double w : values_of(layer.weight())) squares += w * w;
  CHECK(squares / 300 == doctest::Approx(1.0).epsilon(0.02));
}

TEST_CASE("the shared embedding matrix is the parameter itself") {
  Parameters parameters(DType::float64, 1);
  const Embedding layer(Scope(parameters), 2, 1);
  set_values(parameters, "weight", {8, 9});
  check_values(layer.weight(), {8, 9});
}

TEST_CASE("an embedding of 0 rows or 0 tokens has no vectors") {
  Parameters parameters(DType::float32, 1);
  const Embedding layer(Scope(parameters), 3, 2, {.padding_id = 0});
  CHECK(layer(Ids(Shape{0, 4})).shape() == Shape{0, 4, 2});
  CHECK(layer(Ids(Shape{3, 0})).shape() == Shape{3, 0, 2});
}

TEST_CASE("the padding row is looked up like any other and gets no gradient") {
  Parameters parameters(DType::float64, 1);
  const Embedding layer(Scope(parameters), 3, 1, {.padding_id = 2});
  set_values(parameters, "weight", {1, 2, 3});
  Tape tape;
  const Tensor y = layer(Ids{{0, 1, 1, 2, 2}});
  check_values(y, {1, 2, 2, 3, 3});
  tape.backward(y, Tensor::from({1, 5, 1}, {1, 10, 100, 1000, 10000}, DType::float64));
  check_values(parameter(parameters, "weight").gradient(), {1, 110, 0});
}

TEST_CASE("the gradient of an embedding agrees with differences, over repeated ids too") {
  Parameters parameters(DType::float64, 1);
  const Embedding layer(Scope(parameters), 5, 3, {.scale = 1.5});
  check_gradients([&] { return layer(Ids{{4, 1, 4}, {0, 4, 2}}); }, parameters, {});
}

TEST_CASE("an embedding refuses ids outside its vocabulary, with its path and their position") {
  Parameters parameters(DType::float32, 1);
  const Embedding layer(Scope(parameters) / "source_embedding", 11, 2, {.padding_id = 0});
  CHECK_THROWS_WITH_AS(layer(Ids{{0, 1}, {2, 11}}),
                       "source_embedding: embedding: id (1, 1) is 11, expected 0 <= id < 11",
                       ValueError);
  CHECK_THROWS_WITH_AS(layer(Ids{{-1}}),
                       "source_embedding: embedding: id (0, 0) is -1, expected 0 <= id < 11",
                       ValueError);
}
