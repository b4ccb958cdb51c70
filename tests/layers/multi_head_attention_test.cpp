#include "layers/multi_head_attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "autograd/error.h"
#include "autograd/tape.h"
#include "tests/layers/attention_layer.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

Attention identity_attention(DType dtype) {
  Attention attention(2, 1, 0.0, dtype);
  make_projections_identities(attention.parameters);
  return attention;
}

}  // namespace

TEST_CASE("a1 = (1,1) and a2 = (1,0) over unit keys and values give (0.33, 0.67), (0.50, 0.50)") {
  for (const DType dtype : dtypes) {
    const Attention attention = identity_attention(dtype);
    set_values(attention.parameters, "attn.q_proj.weight", {1, 0, 1, 1});  // [[1, 1], [0, 1]]^T
    const Tensor a = Tensor::from({1, 2, 2}, {1, 1, 1, 0}, dtype);
    const Tensor unit = Tensor::from({1, 2, 2}, {1, 0, 0, 1}, dtype);
    const double first = 1 / (1 + std::exp(1 / std::sqrt(2.0)));  // q1 = (1, 2), q2 = (1, 1)
    const Tensor b = attention.layer(a, unit, {}, Mode::inference());
    check_values(b, {0.33, 0.67, 0.50, 0.50}, 0.005);
    check_values(b, {first, 1 - first, 0.5, 0.5}, tolerance(dtype));
    check_values(weights_of(attention.layer, a, unit, {}), {first, 1 - first, 0.5, 0.5},
                 tolerance(dtype));
  }
}

TEST_CASE("multi-head attention has four square projections with biases") {
  const Attention attention(6, 3);
  CHECK(listing(attention.parameters) ==
        std::vector<std::string>{"attn.q_proj.weight (6, 6)", "attn.q_proj.bias (6)",
                                 "attn.k_proj.weight (6, 6)", "attn.k_proj.bias (6)",
                                 "attn.v_proj.weight (6, 6)", "attn.v_proj.bias (6)",
                                 "attn.out_proj.weight (6, 6)", "attn.out_proj.bias (6)"});
}

TEST_CASE("by default multi-head attention has 8 heads and drops nothing") {
  const Tensor x = random_leaf({2, 3, 16}, 1);
  Parameters parameters(DType::float64, 1);
  const MultiHeadAttention layer(Scope(parameters) / "attn", 16);
  CHECK(weights_of(layer, x, x, {}).shape() == Shape{2, 8, 3, 3});
  CHECK(values_of(layer(x, x, {}, Mode::training(RandomStream(1)))) ==
        values_of(layer(x, x, {}, Mode::inference())));
}

TEST_CASE("multi-head attention equals its composition from linear, matmul and softmax") {
  const Attention attention(6, 3);
  perturb(attention.parameters);
  const Tensor queries = random_leaf({2, 2, 6}, 1);
  const Tensor memory = random_leaf({2, 3, 6}, 2);
  const AttentionMask mask = AttentionMask::padding({1, 3});
  const Tensor bias =
      Tensor::from({2, 1, 3}, {0, minus_infinity, minus_infinity, 0, 0, 0}, DType::float64);
  const auto run = [&](const std::function<Tensor()>& function) {
    Tape tape;
    const Tensor y = function();
    tape.backward(y, y);
    std::vector<Tensor> results{y};
    for (NamedTensor p : attention.parameters) {
      results.push_back(p.tensor.gradient().copied(DType::float64));
      p.tensor.clear_gradient();
    }
    return results;
  };
  const auto fused = run([&] { return attention.layer(queries, memory, mask, Mode::inference()); });
  const auto plain = run([&] { return composed(attention.parameters, queries, memory, 3, bias); });
  for (std::size_t i = 0; i < plain.size(); ++i) check_values(fused[i], values_of(plain[i]));
}

TEST_CASE("recorded weights are those of the layer: each row sums to 1, masked keys have 0") {
  const Attention attention = identity_attention(DType::float64);
  const Tensor x = random_leaf({2, 4, 2}, 1);
  const AttentionMask mask = AttentionMask::causal() & AttentionMask::padding({4, 2});
  const Tensor weights = weights_of(attention.layer, x, x, mask);
  REQUIRE(weights.shape() == Shape{2, 1, 4, 4});
  check_values(attention.layer(x, x, mask, Mode::inference()),
               values_of(matmul(weights.viewed_as({2, 4, 4}), x)));
  const auto w = values_of(weights);
  for (std::size_t row = 0; row < 8; ++row) {
    double sum = 0.0;
    for (std::size_t j = 0; j < 4; ++j) {
      const bool hidden = j > row % 4 || (row >= 4 && j >= 2);
      CHECK((w[row * 4 + j] == 0.0) == hidden);
      sum += w[row * 4 + j];
    }
    CHECK(sum == doctest::Approx(1.0).epsilon(1e-14));
  }
}

TEST_CASE("a query that may attend to no key gives the bias of the output projection") {
  const Attention attention(2, 1);
  set_values(attention.parameters, "attn.out_proj.bias", {3, -4});
  const Tensor x = random_leaf({1, 2, 2}, 1);
  check_values(attention.layer(x, x, AttentionMask::padding({0}), Mode::inference()),
               {3, -4, 3, -4});
}

TEST_CASE("dropout of all weights leaves the bias of the output projection") {
  const Attention attention(2, 1, 1.0);
  set_values(attention.parameters, "attn.out_proj.bias", {0.5, -3});
  const Tensor x = random_leaf({1, 2, 2}, 1);
  check_values(attention.layer(x, x, {}, Mode::training(RandomStream(1))), {0.5, -3, 0.5, -3});
}

TEST_CASE("NaN and infinity in padded memory change no output") {
  const Attention attention(4, 2);
  const Tensor queries = random_leaf({2, 3, 4}, 1);
  const Tensor memory = random_leaf({2, 5, 4}, 2);
  const AttentionMask mask = AttentionMask::padding({5, 3});
  const Tensor expected = attention.layer(queries, memory, mask, Mode::inference());
  for (const double bad : {std::nan(""), minus_infinity, -minus_infinity}) {
    Tensor spoilt = memory.copied(DType::float64);
    const auto values = spoilt.mutable_values<double>();
    std::fill(values.end() - 8, values.end(), bad);
    check_values(attention.layer(queries, spoilt, mask, Mode::inference()), values_of(expected));
  }
}

TEST_CASE("a fully masked sentence changes no other sentence of the batch") {
  const Attention attention(4, 2);
  const Tensor x = random_leaf({3, 4, 4}, 1);
  const auto plain = values_of(attention.layer(x, x, {}, Mode::inference()));
  const auto masked =
      values_of(attention.layer(x, x, AttentionMask::padding({4, 0, 4}), Mode::inference()));
  for (std::size_t i = 0; i < 48; ++i) CHECK((masked[i] == plain[i]) == (i < 16 || i >= 32));
  CHECK(gradient_error(
            [&] {
              return attention.layer(x, x, AttentionMask::padding({4, 0, 4}), Mode::inference());
            },
            {x}) < 1e-6);
}

TEST_CASE("attention dropout follows the stream in training and is off in inference") {
  const Attention attention(4, 2, 0.5);
  const Attention same(4, 2, 0.0);
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const Mode mode = Mode::training(RandomStream(5));
  const auto dropped = values_of(attention.layer(x, x, {}, mode));
  CHECK(values_of(attention.layer(x, x, {}, mode)) == dropped);
  CHECK(values_of(attention.layer(x, x, {}, Mode::training(RandomStream(5).at(1)))) != dropped);
  CHECK(values_of(attention.layer(x, x, {}, Mode::inference())) ==
        values_of(same.layer(x, x, {}, Mode::inference())));
  CHECK(values_of(same.layer(x, x, {}, mode)) ==
        values_of(same.layer(x, x, {}, Mode::inference())));
  CHECK(dropped != values_of(same.layer(x, x, {}, Mode::inference())));
}

TEST_CASE("two layers with equal weights and one stream drop different weights") {
  Parameters parameters(DType::float64, 1);
  const MultiHeadAttentionOptions options{.num_heads = 2, .dropout = 0.5};
  const MultiHeadAttention a(Scope(parameters) / "a", 4, options);
  const MultiHeadAttention b(Scope(parameters) / "b", 4, options);
  for (const NamedTensor& p : parameters) {
    if (!p.name.starts_with("b.")) continue;
    Tensor copy = p.tensor;
    const Tensor original = parameter(parameters, "a." + p.name.substr(2));
    std::ranges::copy(original.values<double>(), copy.mutable_values<double>().begin());
  }
  const Tensor x = random_leaf({2, 3, 4}, 1);
  CHECK(values_of(a(x, x, {}, Mode::inference())) == values_of(b(x, x, {}, Mode::inference())));
  CHECK(values_of(a(x, x, {}, Mode::training(RandomStream(1)))) !=
        values_of(b(x, x, {}, Mode::training(RandomStream(1)))));
}

TEST_CASE("the gradients of multi-head attention agree with differences, with dropout too") {
  for (const double rate : {0.0, 0.4}) {
    const Attention attention(4, 2, rate);
    perturb(attention.parameters);
    const Tensor queries = random_leaf({2, 3, 4}, 1);
    const Tensor memory = random_leaf({2, 5, 4}, 2);
    const Mode mode = Mode::training(RandomStream(5));
    check_gradients(
        [&] {
          return attention.layer(queries, memory, AttentionMask::padding({5, 2}), mode);
        },
        attention.parameters, {queries, memory});
    check_gradients([&] { return attention.layer(memory, memory, AttentionMask::causal(), mode); },
                    attention.parameters, {memory});
  }
}

TEST_CASE("multi-head attention refuses inputs that do not fit and names the layer") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float64); };
  const Attention attention(4, 2);
  CHECK_THROWS_WITH_AS(Attention(6, 4),
                       "attn: multi-head attention: d_model 6 is not a multiple of num_heads 4",
                       ShapeError);
  CHECK_THROWS_WITH_AS(Attention(6, 0),
                       "attn: multi-head attention: d_model 6 is not a multiple of num_heads 0",
                       ShapeError);
  CHECK_THROWS_AS(Attention(6, {.num_heads = 0, .d_head = 2}), ShapeError);
  CHECK_NOTHROW(Attention(6, {.num_heads = 4, .d_head = 2}));
  CHECK_THROWS_WITH_AS(
      attention.layer(zeros({1, 2, 3}), zeros({1, 2, 4}), {}, Mode::inference()),
      "attn.q_proj: linear: x has shape (1, 2, 3), expected last axis 4 (weight is "
      "(4, 4))",
      ShapeError);
  CHECK_THROWS_WITH_AS(attention.layer(zeros({2, 2, 4}), zeros({1, 2, 4}), {}, Mode::inference()),
                       "attn: scaled_dot_product_attention: q has shape (2, 2, 4) and k (1, 2, 4), "
                       "expected equal first and last axes",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      attention.layer(zeros({2, 2, 4}), zeros({2, 2, 4}), AttentionMask::padding({1}),
                      Mode::inference()),
      "attn: scaled_dot_product_attention: the padding mask has 1 lengths, expected 2 (the batch "
      "size)",
      ShapeError);
  const Attention all_dropped(4, 2, 1.5);
  CHECK_THROWS_WITH_AS(all_dropped.layer(zeros({1, 1, 4}), zeros({1, 1, 4}), {}, Mode::inference()),
                       "attn: scaled_dot_product_attention: dropout is 1.5, expected 0 to 1",
                       ValueError);
}
