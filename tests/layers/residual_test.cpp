// SPDX-License-Identifier: BSD-3-Clause
#include "layers/norm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "layers/basic_layers.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

struct Block {
  Block(std::size_t d_model, const ResidualOptions& options, const char* name = "block")
      : layer(Scope(parameters) / name, d_model, options) {}
  Block(NormPlacement placement, std::size_t d_model, double dropout = 0.0)
      : Block(d_model, {.placement = placement, .norm = {.epsilon = 1e-14}, .dropout = dropout}) {}

  Parameters parameters{DType::float64, 1};
  Residual layer;
};

}  // namespace

TEST_CASE("a residual block has the parameters of its norm") {
  for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    CHECK(listing(Block(placement, 3).parameters) ==
          std::vector<std::string>{"block.norm.weight (3)", "block.norm.bias (3)"});
  }
}

TEST_CASE("dropout of elements is independent of stochastic depth") {
  constexpr std::size_t sentences = 8, d_model = 512, draws = 64;
  const Block block(d_model, {.dropout = 0.5, .stochastic_depth = 0.5});
  const Tensor x = Tensor::zeros({sentences, d_model}, DType::float64);
  const auto ones = [](const Tensor& v) { return Tensor::full(v.shape(), 1.0, DType::float64); };
  // For each sentence and each element of the first sentence, the number of draws that dropped both
  // or neither.
  std::vector<std::size_t> alike(sentences * d_model, 0);
  std::size_t kept = 0;
  for (std::uint64_t seed = 0; seed < 2 * draws; ++seed) {
    const auto y = values_of(block.layer(x, {}, Mode::training(RandomStream(seed)), ones));
    const auto left_out = [&](std::size_t sentence) {
      const auto first = y.begin() + static_cast<std::ptrdiff_t>(sentence * d_model);
      return std::all_of(first, first + d_model, [](double value) { return value == 0.0; });
    };
    if (left_out(0)) continue;
    ++kept;
    for (std::size_t i = 1; i < sentences; ++i) {
      for (std::size_t j = 0; j < d_model; ++j) {
        alike[i * d_model + j] += left_out(i) == (y[j] == 0.0) ? 1 : 0;
      }
    }
  }
  REQUIRE(kept > draws / 2);
  CHECK(*std::ranges::max_element(alike) < kept);
}

TEST_CASE("a residual block drops the same elements as dropout_add with its path") {
  const Tensor x = random_leaf({4, 6}, 1), y = random_leaf({4, 6}, 2);
  const auto f = [&](const Tensor&) { return y; };
  const RandomStream random(1);
  const Mode mode = Mode::training(random);
  const auto found = values_of(Block(6, {.dropout = 0.5}).layer(x, {}, mode, f));
  CHECK(found == values_of(dropout_add(x, y, 0.5, random.named("block.dropout"))));
  CHECK(found != values_of(Block(6, {.dropout = 0.5}, "other").layer(x, {}, mode, f)));
}

TEST_CASE(
    "skip_scale multiplies the input, and sublayer_scale multiplies the output of the sublayer") {
  const Tensor x = Tensor::from({1, 2}, {1, 5}, DType::float64);  // norm(x) = (-1, 1)
  const auto f = [](const Tensor& v) { return scale(v, 10); };
  ResidualOptions options{.norm = {.epsilon = 1e-14}, .skip_scale = 3, .sublayer_scale = 0.5};
  check_values(Block(2, options).layer(x, {}, Mode::inference(), f), {3 - 5, 15 + 5});
  options.placement = NormPlacement::post;  // norm((3 + 5, 15 + 25))
  options.norm.kind = Normalization::rms_norm;
  const double root = std::sqrt((8.0 * 8 + 40 * 40) / 2);
  check_values(Block(2, options).layer(x, {}, Mode::inference(), f), {8 / root, 40 / root});
}

TEST_CASE("stochastic depth drops the sublayer for whole rows, and only in training") {
  const Block block(6, {.stochastic_depth = 0.5});
  const Tensor x = random_leaf({40, 2, 6}, 1);
  const auto ones = [](const Tensor& v) { return Tensor::full(v.shape(), 1.0, DType::float64); };
  const auto before = values_of(x);
  const auto y = values_of(block.layer(x, {}, Mode::training(RandomStream(1)), ones));
  std::size_t dropped = 0;
  for (std::size_t row = 0; row < 40; ++row) {
    const bool out = y[12 * row] == before[12 * row];
    for (std::size_t i = 12 * row; i < 12 * (row + 1); ++i) {
      CHECK(y[i] == before[i] + (out ? 0.0 : 2.0));
    }
    dropped += out;
  }
  CHECK(dropped > 8);
  CHECK(dropped < 32);
  CHECK(values_of(block.layer(x, {}, Mode::inference(), ones)) == values_of(add(x, ones(x))));
  CHECK(values_of(block.layer(x, {}, Mode::training(RandomStream(2)), ones)) != y);
  const Block other(6, {.stochastic_depth = 0.5}, "other");
  CHECK(values_of(other.layer(x, {}, Mode::training(RandomStream(1)), ones)) != y);
}

TEST_CASE("stochastic depth grows linearly up to its rate at the last layer") {
  const ResidualOptions options{.stochastic_depth = 0.6};
  CHECK(at_depth(options, 1, 3).stochastic_depth == doctest::Approx(0.2));
  CHECK(at_depth(options, 2, 3).stochastic_depth == doctest::Approx(0.4));
  CHECK(at_depth(options, 3, 3).stochastic_depth == doctest::Approx(0.6));
}

TEST_CASE("the gradients of a residual block with all options agree with finite differences") {
  for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    const Block block(5, {.placement = placement,
                          .dropout = 0.3,
                          .stochastic_depth = 0.4,
                          .skip_scale = 0.5,
                          .sublayer_scale = 2});
    perturb(block.parameters);
    const Tensor x = random_leaf({5, 3, 5}, 1);
    const auto run = [&] {
      return block.layer(x, {}, Mode::training(RandomStream(2)),
                         [](const Tensor& v) { return square(v); });
    };
    check_gradients(run, block.parameters, {x});
  }
}

TEST_CASE(
    "a residual block rejects inputs of a different width, and a sublayer that changes the shape") {
  const Block block(NormPlacement::post, 4);
  const Tensor x = Tensor::zeros({2, 4}, DType::float64);
  const auto narrow = [](const Tensor&) { return Tensor::zeros({2, 3}, DType::float64); };
  const auto same = [](const Tensor& v) { return v; };
  check_error<ShapeError>("block.dropout: dropout_add:|(2, 4)|(2, 3)",
                          [&] { block.layer(x, {}, Mode::inference(), narrow); });
  check_error<ShapeError>("block.norm: layer_norm:|(4)|(3)|(2, 3)", [&] {
    block.layer(Tensor::zeros({2, 3}, DType::float64), {}, Mode::inference(), same);
  });
}

namespace {

constexpr Activation activations[] = {Activation::relu, Activation::gelu,   Activation::gelu_tanh,
                                      Activation::silu, Activation::swiglu, Activation::geglu};

struct InnerBlock {
  InnerBlock(std::size_t d_model, std::size_t d_ff, Activation activation, double dropout = 0.0,
             DType dtype = DType::float64)
      : InnerBlock(d_model, {.d_ff = d_ff, .activation = activation, .dropout = dropout}, dtype) {}
  InnerBlock(std::size_t d_model, const FeedForwardOptions& options, DType dtype = DType::float64)
      : parameters(dtype, 1), layer(Scope(parameters) / "ff", d_model, options) {}

  Parameters parameters;
  FeedForward layer;
};

}  // namespace

TEST_CASE("a feed-forward block has two linear maps") {
  const InnerBlock block(2, 3, Activation::gelu);
  CHECK(listing(block.parameters) ==
        std::vector<std::string>{"ff.linear1.weight (3, 2)", "ff.linear1.bias (3)",
                                 "ff.linear2.weight (2, 3)", "ff.linear2.bias (2)"});
}

TEST_CASE("by default, a feed-forward block has a d_ff of 4 d_model, relu and no dropout") {
  const InnerBlock block(2, {}), explicitly(2, 8, Activation::relu);
  CHECK(listing(block.parameters) == listing(explicitly.parameters));
  const Tensor x = random_leaf({5, 2}, 1);
  CHECK(values_of(block.layer(x, Mode::training(RandomStream(1)))) ==
        values_of(explicitly.layer(x, Mode::inference())));
}

TEST_CASE("the default d_ff of a feed-forward block is 4 d_model for every activation") {
  for (const Activation activation : activations) {
    CAPTURE(static_cast<int>(activation));
    CHECK(listing(InnerBlock(3, {.activation = activation}).parameters) ==
          listing(InnerBlock(3, 12, activation).parameters));
  }
}

TEST_CASE("dropout at rate 1 leaves only the bias of the second map") {
  for (const Activation activation : activations) {
    const InnerBlock block(2, 3, activation, 1.0);
    set_values(block.parameters, "ff.linear2.bias", {7, 8});
    const Tensor x = random_leaf({2, 2}, 1);
    check_values(block.layer(x, Mode::training(RandomStream(1))), {7, 8, 7, 8});
    CHECK(values_of(block.layer(x, Mode::inference())) !=
          values_of(block.layer(x, Mode::training(RandomStream(1)))));
  }
}

TEST_CASE(
    "a feed-forward block rejects wrong widths, rates and activations, and the error names the "
    "layer") {
  const InnerBlock block(4, 8, Activation::relu);
  check_error<ShapeError>("ff.linear1: linear:|(2, 3)|4|(8, 4)", [&] {
    block.layer(Tensor::zeros({2, 3}, DType::float64), Mode::inference());
  });
  check_error<ValueError>("ff.dropout: dropout:|-1|0|1",
                          [&] { InnerBlock(4, 8, Activation::relu, -1); });
  const InnerBlock unknown(4, 8, static_cast<Activation>(9));
  check_error<ValueError>("ff: feed-forward:|unknown activation", [&] {
    unknown.layer(Tensor::zeros({2, 4}, DType::float64), Mode::inference());
  });
}
