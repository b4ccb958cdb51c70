// SPDX-License-Identifier: BSD-3-Clause
#include "layers/basic_layers.h"

#include <doctest/doctest.h>

#include <math.h>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "layers/embedding.h"
#include "layers/multi_head_attention.h"
#include "layers/norm.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a linear layer starts with a Glorot uniform weight and a bias of zeros") {
  Parameters parameters(DType::float64, 1);
  const Linear layer(Scope(parameters) / "ff" / "linear1", 4, 20);
  CHECK(listing(parameters) ==
        std::vector<std::string>{"ff.linear1.weight (20, 4)", "ff.linear1.bias (20)"});
  double largest = 0.0;
  for (const double w : values_of(parameter(parameters, "ff.linear1.weight"))) {
    largest = std::max(largest, std::abs(w));
  }
  CHECK(largest <= 0.5);  // sqrt(6 / 24)
  CHECK(largest > 0.45);
  for (const double b : values_of(parameter(parameters, "ff.linear1.bias"))) CHECK(b == 0.0);
}

TEST_CASE("a linear layer without a bias is y = x W^T") {
  Parameters parameters(DType::float64, 1);
  const Linear layer(Scope(parameters), 2, 3, {.bias = false});
  CHECK(listing(parameters) == std::vector<std::string>{"weight (3, 2)"});
  set_values(parameters, "weight", {1, 2, 3, 4, 5, 6});
  check_values(layer(Tensor::from({1, 2}, {1, 1}, DType::float64)), {3, 7, 11});
  check_values(layer.weight(), {1, 2, 3, 4, 5, 6});
  CHECK_FALSE(layer.bias().defined());
}

TEST_CASE(
    "Linear rejects inputs of a different width or element type, and the error names the layer") {
  Parameters parameters(DType::float32, 1);
  const Linear layer(Scope(parameters) / "encoder" / "linear1", 128, 256);
  check_error<ShapeError>("encoder.linear1: linear:|(32, 10, 64)|128|(256, 128)", [&] {
    layer(Tensor::zeros({32, 10, 64}, DType::float32));
  });
  check_error<DTypeError>("encoder.linear1: linear:|float64|float32", [&] {
    layer(Tensor::zeros({1, 128}, DType::float64));
  });
  check_error<ValueError>("parameters:|`encoder.linear1.weight`",
                          [&] { Linear(Scope(parameters) / "encoder" / "linear1", 2, 2); });
}

TEST_CASE("linear rejects a width of 0, and the error names the layer") {
  Parameters parameters(DType::float32, 1);
  const Scope scope = Scope(parameters) / "head";
  check_error<ValueError>("head: linear:|0|1", [&] { Linear(scope, 0, 3); });
  check_error<ValueError>("head: linear:|0|1", [&] { Linear(scope, 3, 0); });
  CHECK(parameters.list().empty());
}

namespace {

const RandomStream stream = RandomStream(3).named("dropout");
const Mode training = Mode::training(stream);

Dropout make(Parameters& parameters, double rate, const std::string& name = "drop") {
  return Dropout(Scope(parameters) / name, rate);
}

}  // namespace

TEST_CASE("the elements that dropout drops depend on the stream and on the path of the layer") {
  Parameters parameters(DType::float64, 1);
  const Tensor x = random_leaf({8, 8}, 1);
  const auto y = values_of(make(parameters, 0.5, "a")(x, training));
  CHECK(values_of(make(parameters, 0.5, "a")(x, training)) == y);
  CHECK(values_of(make(parameters, 0.5, "b")(x, training)) != y);
  CHECK(values_of(make(parameters, 0.5, "a")(x, Mode::training(stream.at(1)))) != y);
  CHECK(values_of(dropout(x, 0.5, stream.named("a"))) == y);
}

TEST_CASE("calls of one dropout layer drop the same elements unless their modes differ") {
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

TEST_CASE("training without a random stream is rejected by layers with dropout") {
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
  check_error<ValueError>("attention: dropout: rate is 0.1", [&] { attention(x, x, {}, mode); });
  const auto same = [](const Tensor& y) { return y; };
  const Residual dropping(scope / "residual", 4, {.dropout = 0.3});
  check_error<ValueError>("dropout: rate is 0.3", [&] { dropping(x, {}, mode, same); });
  const Residual skipping(scope / "depth", 4, {.stochastic_depth = 0.2});
  check_error<ValueError>("dropout: rate is 0.2", [&] { skipping(x, {}, mode, same); });
}

TEST_CASE("dropout after a ReLU also depends on the path of the layer") {
  Parameters parameters(DType::float64, 1);
  const Tensor x = random_leaf({8, 8}, 1);
  const auto y = values_of(make(parameters, 0.5, "a").after_relu(x, training));
  CHECK(values_of(make(parameters, 0.5, "b").after_relu(x, training)) != y);
  CHECK(values_of(relu_dropout(x, 0.5, stream.named("a"))) == y);
}

TEST_CASE("dropout rejects a rate outside [0, 1], and the error names the layer") {
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

TEST_CASE("a Sequential applies layers and functions in order") {
  for (const DType dtype : dtypes) {
    Parameters parameters(dtype, 1);
    const Scope scope(parameters);
    const Sequential mlp{Linear(scope / 0, 2, 3), relu, Linear(scope / 2, 3, 1)};
    CHECK(listing(parameters) == std::vector<std::string>{"0.weight (3, 2)", "0.bias (3)",
                                                          "2.weight (1, 3)", "2.bias (1)"});
    set_values(parameters, "0.weight", {1, 0, 0, 1, -1, -1});
    set_values(parameters, "0.bias", {0, 1, 2});
    set_values(parameters, "2.weight", {1, 10, 100});
    set_values(parameters, "2.bias", {0.5});
    const Tensor y = mlp(Tensor::from({2, 2}, {1, 2, -1, -2}, dtype), Mode::inference());
    CHECK(y.shape() == Shape{2, 1});
    check_values(y, {1 + 30 + 0 + 0.5, 0 + 0 + 500 + 0.5});
    CHECK(values_of(mlp(Tensor::from({2, 2}, {1, 2, -1, -2}, dtype))) == values_of(y));
  }
}

TEST_CASE("a Sequential passes the mode to layers that differ in training, even when nested") {
  Parameters parameters(DType::float64, 1);
  const Scope scope(parameters);
  const Dropout dropout(scope / "dropout", 0.5);
  const Sequential inner{dropout, [](const Tensor& x) { return x; }};
  const Sequential outer{LayerNorm(scope / "norm", 8), inner};
  const Tensor x = random_leaf({16, 8}, 1);
  const Mode training = Mode::training(RandomStream(1));
  const LayerNorm norm(Scope(parameters) / "other", 8);
  CHECK(values_of(outer(x, training)) == values_of(dropout(norm(x), training)));
  CHECK(values_of(outer(x, Mode::inference())) == values_of(norm(x)));
  CHECK(values_of(outer(x, training)) != values_of(norm(x)));
}

TEST_CASE("a Sequential may take ids as input, and its gradients agree with finite differences") {
  Parameters parameters(DType::float64, 1);
  const Scope scope(parameters);
  const Sequential model{Embedding(scope / "embedding", 7, 4), LayerNorm(scope / "norm", 4),
                         FeedForward(scope / "ff", 4, {.activation = Activation::gelu}),
                         Linear(scope / "out", 4, 3, {.bias = false})};
  perturb(parameters);
  const Ids ids{{1, 2, 3}, {4, 5, 6}};
  CHECK(model(ids, Mode::inference()).shape() == Shape{2, 3, 3});
  set_values(parameter(parameters, "embedding.weight"), values_of(random_leaf({7, 4}, 2)));
  check_gradients([&] { return model(ids, Mode::training()); }, parameters, {});
}

TEST_CASE("errors in a Sequential name the layer, and an empty Sequential returns its input") {
  Parameters parameters(DType::float64, 1);
  const Scope scope(parameters);
  const Sequential mlp{Linear(scope / "mlp" / 0, 2, 3), Linear(scope / "mlp" / 1, 4, 1)};
  check_error<ShapeError>("mlp.1: linear: x has shape (1, 3)", [&] {
    mlp(random_leaf({1, 2}, 1), Mode::inference());
  });
  const Tensor x = random_leaf({2}, 1);
  CHECK(Sequential()(x, Mode::inference()).identity() == x.identity());
  CHECK(Sequential{}(x).identity() == x.identity());
}

namespace {

/// A class whose member is a Sequential.
class Mlp {
 public:
  explicit Mlp(const Scope& scope)
      : net_{Linear(scope / 0, 2, 3), tanh, Linear(scope / 2, 3, 1), exp} {}
  Tensor operator()(const Tensor& x) const { return net_(x); }

 private:
  Sequential net_;
};

}  // namespace

TEST_CASE("a Sequential can be a member, and accepts functions that <cmath> overloads") {
  Parameters parameters(DType::float64, 1);
  const Mlp mlp(parameters);
  const Linear first(Scope(parameters) / "other0", 2, 3),
      second(Scope(parameters) / "other2", 3, 1);
  for (const char* name : {"weight", "bias"}) {
    for (const char* layer : {"0.", "2."}) {
      const std::string path = std::string(layer) + name;
      set_values(parameter(parameters, "other" + path), values_of(parameter(parameters, path)));
    }
  }
  const Tensor x = random_leaf({4, 2}, 1);
  CHECK(values_of(mlp(x)) == values_of(tapestry::exp(second(tapestry::tanh(first(x))))));
}

TEST_CASE("copies of a Sequential share its parameters") {
  Parameters parameters(DType::float64, 1);
  const Scope scope(parameters);
  Sequential net;
  const Tensor x = random_leaf({4, 2}, 1);
  CHECK(values_of(net(x)) == values_of(x));
  net = {Linear(scope / 0, 2, 2), relu};
  const Sequential copy = net;
  const std::vector<double> before = values_of(net(x));
  CHECK(values_of(copy(x)) == before);
  set_values(parameters, "0.bias", {1, 2});
  CHECK(values_of(copy(x)) == values_of(net(x)));
  CHECK(values_of(copy(x)) != before);
  net = {sigmoid};
  CHECK(values_of(copy(x)) != values_of(net(x)));
}

TEST_CASE("a nested Sequential may take ids as input") {
  Parameters parameters(DType::float64, 1);
  const Scope scope(parameters);
  const Sequential embedding{Embedding(scope / "embedding", 7, 4)};
  const Sequential outer{embedding, Linear(scope / "out", 4, 3)};
  const Ids ids{{1, 2, 3}};
  CHECK(outer(ids).shape() == Shape{1, 3, 3});
  CHECK(outer(ids, Mode::inference()).shape() == Shape{1, 3, 3});
  CHECK(Sequential{[](const Ids& x) { return one_hot(x, 4); }}(ids).shape() == Shape{1, 3, 4});
}

TEST_CASE(
    "a Sequential rejects unsupported inputs, and calls without a mode if one of its layers needs "
    "a mode") {
  Parameters parameters(DType::float64, 1);
  const Scope scope(parameters);
  const Tensor x = random_leaf({2, 2}, 1);
  const Sequential with_dropout{Linear(scope / 0, 2, 2), Dropout(scope / 1, 0.5)};
  check_error<ValueError>("Sequential:|a layer is called with (x, mode), found a",
                          [&] { with_dropout(x); });
  const Ids ids{{1}};
  check_error<ValueError>("Sequential:|found ids", [&] { with_dropout(ids, Mode::inference()); });
  CHECK_THROWS_AS(Sequential()(ids), ValueError);
  const Sequential late{relu, Embedding(scope / "embedding", 7, 4)};
  check_error<ValueError>("Sequential:|1", [&] { late(x); });
}
