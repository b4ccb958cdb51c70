#include "layers/basic_layers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <utility>

#include "autograd/error.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr Activation plain_activations[] = {Activation::relu, Activation::gelu,
                                            Activation::gelu_tanh, Activation::silu};
constexpr Activation activations[] = {Activation::relu, Activation::gelu,   Activation::gelu_tanh,
                                      Activation::silu, Activation::swiglu, Activation::geglu};

struct Block {
  Block(std::size_t d_model, std::size_t d_ff, Activation activation, double dropout = 0.0,
        DType dtype = DType::float64)
      : Block(d_model, {.d_ff = d_ff, .activation = activation, .dropout = dropout}, dtype) {}
  Block(std::size_t d_model, const FeedForwardOptions& options, DType dtype = DType::float64)
      : parameters(dtype, 1), layer(Scope(parameters) / "ff", d_model, options) {}

  Parameters parameters;
  FeedForward layer;
};

double expected(Activation activation, double x) {
  if (activation == Activation::relu) return std::max(x, 0.0);
  if (activation == Activation::silu) return x / (1 + std::exp(-x));
  if (activation == Activation::gelu) return x * 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

}  // namespace

TEST_CASE("a feed-forward block is max(0, x W1 + b1) W2 + b2") {
  for (const DType dtype : dtypes) {
    const Block block(2, 3, Activation::relu, 0.0, dtype);
    set_values(block.parameters, "ff.linear1.weight", {1, 1, 1, -1, 2, 0});
    set_values(block.parameters, "ff.linear1.bias", {0, 1, -1});
    set_values(block.parameters, "ff.linear2.weight", {1, 10, 100, 0, 1, 0});
    set_values(block.parameters, "ff.linear2.bias", {0.5, -0.5});
    // Before the activation: (3, 0, 1) and (-3, 2, -3).
    const Tensor y = block.layer(Tensor::from({1, 2, 2}, {1, 2, -1, -2}, dtype), Mode::inference());
    CHECK(y.shape() == Shape{1, 2, 2});
    check_values(y, {103.5, -0.5, 20.5, 1.5});
  }
}

TEST_CASE("the activation is applied between the two maps") {
  for (const Activation activation : plain_activations) {
    const Block block(1, 1, activation);
    set_values(block.parameters, "ff.linear1.weight", {1});
    set_values(block.parameters, "ff.linear2.weight", {1});
    for (const double x : {-2.0, -0.5, 0.0, 1.0, 3.0}) {
      check_values(block.layer(Tensor::full({1, 1}, x, DType::float64), Mode::inference()),
                   {expected(activation, x)});
    }
  }
}

TEST_CASE("a gated feed-forward block multiplies the values by the activation of the gates") {
  for (const auto& [gated, plain] : {std::pair(Activation::swiglu, Activation::silu),
                                     std::pair(Activation::geglu, Activation::gelu)}) {
    const Block block(1, 2, gated);
    set_values(block.parameters, "ff.linear1.weight", {1, 2, 3, -1});
    set_values(block.parameters, "ff.linear1.bias", {0, 1, 0, 0.5});
    set_values(block.parameters, "ff.linear2.weight", {1, 10});
    for (const double x : {-2.0, 0.0, 0.75}) {
      check_values(block.layer(Tensor::full({1, 1}, x, DType::float64), Mode::inference()),
                   {x * expected(plain, 3 * x) + 10 * (2 * x + 1) * expected(plain, 0.5 - x)});
    }
  }
}

TEST_CASE("a gated feed-forward block has a first map twice as wide") {
  for (const Activation activation : {Activation::swiglu, Activation::geglu}) {
    CHECK(listing(Block(2, 3, activation).parameters) ==
          std::vector<std::string>{"ff.linear1.weight (6, 2)", "ff.linear1.bias (6)",
                                   "ff.linear2.weight (2, 3)", "ff.linear2.bias (2)"});
  }
}

TEST_CASE("a feed-forward block has two linear maps") {
  const Block block(2, 3, Activation::gelu);
  CHECK(listing(block.parameters) ==
        std::vector<std::string>{"ff.linear1.weight (3, 2)", "ff.linear1.bias (3)",
                                 "ff.linear2.weight (2, 3)", "ff.linear2.bias (2)"});
}

TEST_CASE(
    "by default a feed-forward block is four times as wide inside, with relu and no dropout") {
  const Block block(2, {}), explicitly(2, 8, Activation::relu);
  CHECK(listing(block.parameters) == listing(explicitly.parameters));
  const Tensor x = random_leaf({5, 2}, 1);
  CHECK(values_of(block.layer(x, Mode::training(RandomStream(1)))) ==
        values_of(explicitly.layer(x, Mode::inference())));
}

TEST_CASE("without d_ff a feed-forward block has 4 d_model values inside, gated or not") {
  for (const Activation activation : activations) {
    CAPTURE(static_cast<int>(activation));
    CHECK(listing(Block(3, {.activation = activation}).parameters) ==
          listing(Block(3, 12, activation).parameters));
  }
}

TEST_CASE("a feed-forward block computes each position separately") {
  const Block block(4, 6, Activation::gelu);
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const Tensor y = block.layer(x, Mode::inference());
  check_values(block.layer(x.viewed_as({6, 4}), Mode::inference()), values_of(y));
  CHECK(block.layer(Tensor::zeros({0, 3, 4}, DType::float64), Mode::inference()).shape() ==
        Shape{0, 3, 4});
}

TEST_CASE("dropout at rate 1 leaves nothing but the bias of the second map") {
  for (const Activation activation : activations) {
    const Block block(2, 3, activation, 1.0);
    set_values(block.parameters, "ff.linear2.bias", {7, 8});
    const Tensor x = random_leaf({2, 2}, 1);
    check_values(block.layer(x, Mode::training(RandomStream(1))), {7, 8, 7, 8});
    CHECK(values_of(block.layer(x, Mode::inference())) !=
          values_of(block.layer(x, Mode::training(RandomStream(1)))));
  }
}

TEST_CASE("the gradients of a feed-forward block agree with differences, with dropout too") {
  for (const Activation activation : activations) {
    for (const double rate : {0.0, 0.4}) {
      const Block block(3, 8, activation, rate);
      perturb(block.parameters);
      const Tensor x = random_leaf({2, 3, 3}, 1);
      check_gradients([&] { return block.layer(x, Mode::training(RandomStream(2))); },
                      block.parameters, {x});
    }
  }
}

TEST_CASE("a feed-forward block refuses another width and names its first map") {
  const Block block(4, 8, Activation::relu);
  CHECK_THROWS_WITH_AS(
      block.layer(Tensor::zeros({2, 3}, DType::float64), Mode::inference()),
      "ff.linear1: linear: x has shape (2, 3), expected last axis 4 (weight is (8, "
      "4))",
      ShapeError);
  CHECK_THROWS_WITH_AS(Block(4, 8, Activation::relu, -1),
                       "ff.dropout: dropout: the rate is -1, expected 0 to 1", ValueError);
  const Block unknown(4, 8, static_cast<Activation>(9));
  CHECK_THROWS_WITH_AS(unknown.layer(Tensor::zeros({2, 4}, DType::float64), Mode::inference()),
                       "ff: feed-forward: unknown activation", ValueError);
}
