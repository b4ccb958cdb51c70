#include "layers/basic_layers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "autograd/error.h"
#include "autograd/ops/dropout.h"
#include "layers/multi_head_attention.h"
#include "layers/norm.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

const RandomStream stream = RandomStream(3).named("dropout");
const Mode training = Mode::training(stream);

Dropout make(Parameters& parameters, double rate, const std::string& name = "drop") {
  return Dropout(Scope(parameters) / name, rate);
}

}  // namespace

TEST_CASE("dropout at rate 0.75 leaves a quarter of the elements, four times as large") {
  for (const DType dtype : dtypes) {
    Parameters parameters(dtype, 1);
    const auto y = values_of(make(parameters, 0.75)(Tensor::full({20, 500}, 3, dtype), training));
    std::size_t kept = 0;
    for (const double value : y) {
      CHECK((value == 0.0 || value == 12.0));
      kept += value != 0.0;
    }
    CHECK(static_cast<double>(kept) / 10000 == doctest::Approx(0.25).epsilon(0.05));
    CHECK(parameters.list().empty());
  }
}

TEST_CASE("dropout: a stream that is off and a rate of 0 return x, a rate of 1 gives zeros") {
  Parameters parameters(DType::float64, 1);
  const Tensor x = random_leaf({3, 4}, 1);
  CHECK(values_of(make(parameters, 0.5)(x, Mode::inference())) == values_of(x));
  CHECK(values_of(make(parameters, 0.0)(x, training)) == values_of(x));
  CHECK(values_of(make(parameters, 1.0)(x, training)) == std::vector<double>(12, 0.0));
}

TEST_CASE("which elements are dropped depends on the stream and on the path of the layer") {
  Parameters parameters(DType::float64, 1);
  const Tensor x = random_leaf({8, 8}, 1);
  const auto y = values_of(make(parameters, 0.5, "a")(x, training));
  CHECK(values_of(make(parameters, 0.5, "a")(x, training)) == y);
  CHECK(values_of(make(parameters, 0.5, "b")(x, training)) != y);
  CHECK(values_of(make(parameters, 0.5, "a")(x, Mode::training(stream.at(1)))) != y);
  CHECK(values_of(dropout(x, 0.5, stream.named("a"))) == y);
}

TEST_CASE("calls of one dropout layer drop the same elements unless their modes differ in number") {
  Parameters parameters(DType::float64, 1);
  const Dropout layer = make(parameters, 0.5);
  const Tensor x = random_leaf({8, 8}, 1);
  const auto y = values_of(layer(x, training));
  CHECK(values_of(layer(x, training)) == y);
  CHECK(values_of(layer(x, training.at(0))) != y);
  CHECK(values_of(layer(x, training.at(0))) != values_of(layer(x, training.at(1))));
  CHECK(values_of(layer(x, training.at(1))) == values_of(layer(x, training.at(1))));
  CHECK(values_of(layer(x, Mode::inference().at(1))) == values_of(x));
  CHECK(training.with_deferred_averages().at(1).defers_averages());
  CHECK(training.at(1).is_training());
}

TEST_CASE("training without a random stream is refused by layers with dropout") {
  Parameters parameters(DType::float32, 1);
  const Tensor x = Tensor::ones({1, 2, 4});
  const Mode mode = Mode::training();
  const char* const message =
      "a: dropout: rate is 0.5 in a training pass without random numbers, expected "
      "Mode::training(RandomStream(seed).named(\"dropout\").at(step))";
  CHECK_THROWS_WITH_AS(make(parameters, 0.5, "a")(x, mode), message, ValueError);
  CHECK_THROWS_WITH_AS(make(parameters, 0.5, "a").after_relu(x, mode), message, ValueError);
  CHECK(values_of(make(parameters, 0.0, "a")(x, mode)) == values_of(x));
  const Scope scope(parameters);
  const MultiHeadAttention attention(scope / "attention", 4, {.num_heads = 1, .dropout = 0.1});
  CHECK_THROWS_WITH_AS(attention(x, x, {}, mode),
                       doctest::Contains("attention: dropout: rate is 0.1"), ValueError);
  const auto same = [](const Tensor& y) { return y; };
  const Residual dropping(scope / "residual", 4, {.dropout = 0.3});
  CHECK_THROWS_WITH_AS(dropping(x, {}, mode, same), doctest::Contains("dropout: rate is 0.3"),
                       ValueError);
  const Residual skipping(scope / "depth", 4, {.stochastic_depth = 0.2});
  CHECK_THROWS_WITH_AS(skipping(x, {}, mode, same), doctest::Contains("dropout: rate is 0.2"),
                       ValueError);
}

TEST_CASE("dropout after a ReLU depends on the path of the layer too") {
  Parameters parameters(DType::float64, 1);
  const Tensor x = random_leaf({8, 8}, 1);
  const auto y = values_of(make(parameters, 0.5, "a").after_relu(x, training));
  CHECK(values_of(make(parameters, 0.5, "b").after_relu(x, training)) != y);
  CHECK(values_of(relu_dropout(x, 0.5, stream.named("a"))) == y);
}

TEST_CASE("the gradients of dropout with a frozen stream agree with differences") {
  Parameters parameters(DType::float64, 1);
  const Dropout layer = make(parameters, 0.4);
  const Tensor x = random_leaf({5, 7}, 2);
  check_gradients([&] { return layer(x, training); }, parameters, {x});
}

TEST_CASE("dropout refuses a rate outside [0, 1] and names its layer") {
  Parameters parameters(DType::float32, 1);
  const auto message = [](const std::string& rate) {
    return "ff.dropout: dropout: the rate is " + rate + ", expected 0 to 1";
  };
  CHECK_THROWS_WITH_AS(make(parameters, 1.5, "ff.dropout"), message("1.5").c_str(), ValueError);
  CHECK_THROWS_WITH_AS(make(parameters, -0.1, "ff.dropout"), message("-0.1").c_str(), ValueError);
  for (const double sign : {1.0, -1.0}) {
    const double nan = std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
    CHECK_THROWS_WITH_AS(make(parameters, nan, "ff.dropout"), message("nan").c_str(), ValueError);
  }
}
