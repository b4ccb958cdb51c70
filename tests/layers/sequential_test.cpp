
#include <doctest/doctest.h>
#include <math.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "layers/basic_layers.h"
#include "layers/embedding.h"
#include "layers/norm.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a Sequential applies layers and functions one after the other") {
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

TEST_CASE("a Sequential passes the mode to layers that differ in training, also when nested") {
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

TEST_CASE("a Sequential may start with ids, and its gradients agree with differences") {
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
  CHECK_THROWS_WITH_AS(mlp(random_leaf({1, 2}, 1), Mode::inference()),
                       doctest::Contains("mlp.1: linear: x has shape (1, 3)"), ShapeError);
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

TEST_CASE("a nested Sequential may start with ids") {
  Parameters parameters(DType::float64, 1);
  const Scope scope(parameters);
  const Sequential embedding{Embedding(scope / "embedding", 7, 4)};
  const Sequential outer{embedding, Linear(scope / "out", 4, 3)};
  const Ids ids{{1, 2, 3}};
  CHECK(outer(ids).shape() == Shape{1, 3, 3});
  CHECK(outer(ids, Mode::inference()).shape() == Shape{1, 3, 3});
  CHECK(Sequential{[](const Ids& x) { return one_hot(x, 4); }}(ids).shape() == Shape{1, 3, 4});
}

TEST_CASE("a Sequential refuses a call without a mode that a layer needs, and other inputs") {
  Parameters parameters(DType::float64, 1);
  const Scope scope(parameters);
  const Tensor x = random_leaf({2, 2}, 1);
  const Sequential with_dropout{Linear(scope / 0, 2, 2), Dropout(scope / 1, 0.5)};
  CHECK_THROWS_WITH_AS(with_dropout(x),
                       "Sequential: a layer is called with (x, mode), found a call without a mode: "
                       "call the Sequential with Mode::training(random) or Mode::inference()",
                       ValueError);
  const Ids ids{{1}};
  CHECK_THROWS_WITH_AS(with_dropout(ids, Mode::inference()),
                       "Sequential: found ids, expected a tensor: only a first layer such as "
                       "Embedding takes ids",
                       ValueError);
  CHECK_THROWS_AS(Sequential()(ids), ValueError);
  const Sequential late{relu, Embedding(scope / "embedding", 7, 4)};
  CHECK_THROWS_WITH_AS(late(x), "Sequential: layer 1 takes ids, found a tensor", ValueError);
}
