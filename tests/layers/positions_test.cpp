#include "layers/embedding.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

Positions make(Parameters& parameters, PositionKind kind, std::size_t max_length,
               std::size_t d_model) {
  return Positions(Scope(parameters) / "target_positions", d_model,
                   {.kind = kind, .max_length = max_length});
}

}  // namespace

TEST_CASE(
    "the table has sines at even and cosines at odd places, from 1 to 1/10000 radian a step") {
  for (const DType dtype : dtypes) {
    const Tensor table = sinusoidal_positions(3, 4, dtype);
    CHECK(table.shape() == Shape{3, 4});
    CHECK(table.dtype() == dtype);
    check_values(table,
                 {0, 1, 0, 1,                                                //
                  std::sin(1), std::cos(1), std::sin(0.01), std::cos(0.01),  //
                  std::sin(2), std::cos(2), std::sin(0.02), std::cos(0.02)},
                 tolerance(dtype));
  }
}

TEST_CASE("the table for d_model 512 has the published values") {
  const auto table = values_of(sinusoidal_positions(51, 512, DType::float64));
  CHECK(table[512] == doctest::Approx(0.8414709848).epsilon(1e-9));  // PE(1, 0) = sin 1
  CHECK(table[513] == doctest::Approx(0.5403023059).epsilon(1e-9));  // PE(1, 1) = cos 1
  CHECK(table[50 * 512 + 256] == doctest::Approx(std::sin(0.5)));    // 10000^(1/2) = 100
  CHECK(table[50 * 512 + 511] == doctest::Approx(0.9999865674).epsilon(1e-9));
}

TEST_CASE("a sinusoidal table of odd width ends with a sine") {
  check_values(sinusoidal_positions(2, 3, DType::float64),
               {0, 1, 0, std::sin(1), std::cos(1), std::sin(std::pow(10000.0, -2.0 / 3.0))});
}

TEST_CASE("PE(pos + k) is a linear map of PE(pos): each sine and cosine pair turns by k steps") {
  constexpr std::size_t d = 8;
  constexpr std::size_t k = 5;
  const auto table = values_of(sinusoidal_positions(40, d, DType::float64));
  for (std::size_t pos = 0; pos + k < 40; ++pos) {
    for (std::size_t j = 0; j < d; j += 2) {
      const double angle = k / std::pow(10000.0, static_cast<double>(j) / d);
      const double s = table[pos * d + j];
      const double c = table[pos * d + j + 1];
      const double* moved = &table[(pos + k) * d + j];
      CHECK(moved[0] == doctest::Approx(s * std::cos(angle) + c * std::sin(angle)).epsilon(1e-12));
      CHECK(moved[1] == doctest::Approx(c * std::cos(angle) - s * std::sin(angle)).epsilon(1e-12));
    }
  }
}

TEST_CASE("sinusoidal positions have no parameters and add the table to every sentence") {
  Parameters parameters(DType::float64, 1);
  const Positions layer = make(parameters, PositionKind::sinusoidal, 5, 2);
  CHECK(parameters.list().empty());
  const Tensor y = layer(Tensor::from({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, DType::float64));
  const double s = std::sin(1.0);
  const double c = std::cos(1.0);
  check_values(y, {1, 3, 3 + s, 4 + c, 5, 7, 7 + s, 8 + c});
}

TEST_CASE("learned positions add one row of their parameter to each position") {
  Parameters parameters(DType::float64, 1);
  const Positions layer = make(parameters, PositionKind::learned, 3, 2);
  CHECK(listing(parameters) == std::vector<std::string>{"target_positions.weight (3, 2)"});
  set_values(parameters, "target_positions.weight", {10, 20, 30, 40, 50, 60});
  const Tensor y = layer(Tensor::from({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, DType::float64));
  check_values(y, {11, 22, 33, 44, 15, 26, 37, 48});
}

TEST_CASE("learned positions start with variance 1 / d_model") {
  Parameters parameters(DType::float64, 1);
  make(parameters, PositionKind::learned, 300, 100);
  double squares = 0.0;
  for (const double w : values_of(parameters.list()[0].tensor)) squares += w * w;
  CHECK(squares / 300 == doctest::Approx(1.0).epsilon(0.02));
}

TEST_CASE("position kinds none, rotary and alibi add nothing and have no parameters") {
  for (const PositionKind kind : {PositionKind::none, PositionKind::rotary, PositionKind::alibi}) {
    Parameters parameters(DType::float64, 1);
    const Positions layer = make(parameters, kind, 5, 4);
    CHECK(parameters.list().empty());
    const Tensor x = random_leaf({2, 3, 4}, 1);
    CHECK(values_of(layer(x)) == values_of(x));
    CHECK(gradient_error([&] { return layer(x); }, {x}) < 1e-6);
  }
}

TEST_CASE("the gradients of positions agree with differences") {
  for (const PositionKind kind : {PositionKind::sinusoidal, PositionKind::learned}) {
    Parameters parameters(DType::float64, 1);
    const Positions layer = make(parameters, kind, 5, 4);
    const Tensor x = random_leaf({2, 3, 4}, 1);
    check_gradients([&] { return layer(x); }, parameters, {x});
  }
}

TEST_CASE("a sequence of max_length passes, and one token more is refused") {
  for (const PositionKind kind : {PositionKind::sinusoidal, PositionKind::learned,
                                  PositionKind::none, PositionKind::rotary, PositionKind::alibi}) {
    Parameters parameters(DType::float32, 1);
    const Positions layer = make(parameters, kind, 5, 2);
    CHECK(layer(Tensor::zeros({1, 5, 2}, DType::float32)).shape() == Shape{1, 5, 2});
    CHECK_THROWS_WITH_AS(layer(Tensor::zeros({1, 6, 2}, DType::float32)),
                         "target_positions: positions: the sequence has 6 tokens, expected at most "
                         "5 (max_length)",
                         ShapeError);
  }
}

TEST_CASE("positions refuse inputs that are not batches of vectors of their width") {
  Parameters parameters(DType::float32, 1);
  const Positions layer = make(parameters, PositionKind::sinusoidal, 5, 4);
  CHECK_THROWS_WITH_AS(
      layer(Tensor::zeros({3, 4}, DType::float32)),
      "target_positions: positions: x has shape (3, 4), expected (batch, length, 4)", ShapeError);
  CHECK_THROWS_WITH_AS(
      layer(Tensor::zeros({2, 3, 1}, DType::float32)),
      "target_positions: positions: x has shape (2, 3, 1), expected (batch, length, 4)",
      ShapeError);
}
