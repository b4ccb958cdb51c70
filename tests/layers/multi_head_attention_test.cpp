#include "layers/multi_head_attention.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "autograd/attention_recorder.h"
#include "autograd/error.h"
#include "autograd/ops/add.h"
#include "autograd/ops/concat.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/slice.h"
#include "autograd/ops/softmax.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

struct Attention {
  Attention(std::size_t d_model, std::size_t num_heads, double dropout = 0.0,
            DType dtype = DType::float64)
      : Attention({.d_model = d_model, .num_heads = num_heads, .dropout = dropout}, dtype) {}
  explicit Attention(const TransformerOptions& options, DType dtype = DType::float64,
                     AttentionRole role = AttentionRole::self)
      : parameters(dtype, 1), layer(Scope(parameters) / "attn", options, role) {}

  Parameters parameters;
  MultiHeadAttention layer;
};

/// The weights that a call uses.
Tensor weights_of(const MultiHeadAttention& layer, const Tensor& queries, const Tensor& memory,
                  const AttentionMask& mask) {
  const AttentionRecorder recorder;
  layer(queries, memory, mask, {});
  REQUIRE(recorder.records().size() == 1);
  return recorder.records()[0].weights;
}

/// Makes all four change nothing where d_model is 2.
void make_projections_identities(const Parameters& parameters) {
  for (const char* projection : {"q", "k", "v", "out"}) {
    set_values(parameters, fmt::format("attn.{}_proj.weight", projection), {1, 0, 0, 1});
  }
}

Attention identity_attention(DType dtype) {
  Attention attention(2, 1, 0.0, dtype);
  make_projections_identities(attention.parameters);
  return attention;
}

/// The layer's formula from small operations; `bias` is added to the scores of each head.
Tensor composed(const Parameters& parameters, const Tensor& queries, const Tensor& memory,
                std::size_t num_heads, const Tensor& bias) {
  const auto project = [&](const std::string& name, const Tensor& x) {
    return linear(x, parameter(parameters, "attn." + name + ".weight"),
                  parameter(parameters, "attn." + name + ".bias"));
  };
  const Tensor q = project("q_proj", queries);
  const Tensor k = project("k_proj", memory);
  const Tensor v = project("v_proj", memory);
  const std::size_t width = q.shape()[2] / num_heads;
  std::vector<Tensor> heads;
  for (std::size_t h = 0; h < num_heads; ++h) {
    const auto own = [&](const Tensor& x) { return slice(x, -1, h * width, (h + 1) * width); };
    const double scale = 1.0 / std::sqrt(static_cast<double>(width));
    const Tensor scores = matmul(own(q), own(k), {.transpose_b = true, .scale = scale});
    heads.push_back(matmul(softmax(add(scores, bias)), own(v)));
  }
  return project("out_proj", concat(heads, -1));
}

}  // namespace

TEST_CASE("a1 = (1,1) and a2 = (1,0) over unit keys and values give (0.33, 0.67), (0.50, 0.50)") {
  for (const DType dtype : dtypes) {
    const Attention attention = identity_attention(dtype);
    set_values(attention.parameters, "attn.q_proj.weight", {1, 0, 1, 1});  // [[1, 1], [0, 1]]^T
    const Tensor a = Tensor::from({1, 2, 2}, {1, 1, 1, 0}, dtype);
    const Tensor unit = Tensor::from({1, 2, 2}, {1, 0, 0, 1}, dtype);
    const double first = 1 / (1 + std::exp(1 / std::sqrt(2.0)));  // q1 = (1, 2), q2 = (1, 1)
    const Tensor b = attention.layer(a, unit, {}, {});
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
  const auto fused = run([&] { return attention.layer(queries, memory, mask, {}); });
  const auto plain = run([&] { return composed(attention.parameters, queries, memory, 3, bias); });
  for (std::size_t i = 0; i < plain.size(); ++i) check_values(fused[i], values_of(plain[i]));
}

TEST_CASE("the weights are those that the layer used: each row sums to 1, masked keys have 0") {
  const Attention attention = identity_attention(DType::float64);
  const Tensor x = random_leaf({2, 4, 2}, 1);
  const AttentionMask mask = AttentionMask::causal() & AttentionMask::padding({4, 2});
  const Tensor weights = weights_of(attention.layer, x, x, mask);
  REQUIRE(weights.shape() == Shape{2, 1, 4, 4});
  check_values(attention.layer(x, x, mask, {}), values_of(matmul(weights.viewed_as({2, 4, 4}), x)));
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

TEST_CASE("a query with nothing to attend to gets the bias of the output projection") {
  const Attention attention(2, 1);
  set_values(attention.parameters, "attn.out_proj.bias", {3, -4});
  const Tensor x = random_leaf({1, 2, 2}, 1);
  check_values(attention.layer(x, x, AttentionMask::padding({0}), {}), {3, -4, 3, -4});
}

TEST_CASE("dropout of all weights leaves the bias of the output projection") {
  const Attention attention(2, 1, 1.0);
  set_values(attention.parameters, "attn.out_proj.bias", {0.5, -3});
  const Tensor x = random_leaf({1, 2, 2}, 1);
  check_values(attention.layer(x, x, {}, RandomStream(1)), {0.5, -3, 0.5, -3});
}

TEST_CASE("NaN and infinity in padded memory reach no output") {
  const Attention attention(4, 2);
  const Tensor queries = random_leaf({2, 3, 4}, 1);
  const Tensor memory = random_leaf({2, 5, 4}, 2);
  const AttentionMask mask = AttentionMask::padding({5, 3});
  const Tensor expected = attention.layer(queries, memory, mask, {});
  for (const double bad : {std::nan(""), minus_infinity, -minus_infinity}) {
    Tensor spoilt = memory.copied(DType::float64);
    const auto values = spoilt.mutable_values<double>();
    std::fill(values.end() - 8, values.end(), bad);
    check_values(attention.layer(queries, spoilt, mask, {}), values_of(expected));
  }
}

TEST_CASE("a sentence with everything masked leaves the rest of the batch untouched") {
  const Attention attention(4, 2);
  const Tensor x = random_leaf({3, 4, 4}, 1);
  const auto plain = values_of(attention.layer(x, x, {}, {}));
  const auto masked = values_of(attention.layer(x, x, AttentionMask::padding({4, 0, 4}), {}));
  for (std::size_t i = 0; i < 48; ++i) CHECK((masked[i] == plain[i]) == (i < 16 || i >= 32));
  CHECK(gradient_error(
            [&] {
              return attention.layer(x, x, AttentionMask::padding({4, 0, 4}), {});
            },
            {x}) < 1e-6);
}

TEST_CASE("dropout takes weights away by the stream and the path, at inference none") {
  const Attention attention(4, 2, 0.5);
  const Attention same(4, 2, 0.0);
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const RandomStream random(5);
  const auto dropped = values_of(attention.layer(x, x, {}, random));
  CHECK(values_of(attention.layer(x, x, {}, random)) == dropped);
  CHECK(values_of(attention.layer(x, x, {}, random.at(1))) != dropped);
  CHECK(values_of(attention.layer(x, x, {}, {})) == values_of(same.layer(x, x, {}, {})));
  CHECK(values_of(same.layer(x, x, {}, random)) == values_of(same.layer(x, x, {}, {})));
  CHECK(dropped != values_of(same.layer(x, x, {}, {})));
}

TEST_CASE("two layers of equal weights told to use one stream drop differently") {
  Parameters parameters(DType::float64, 1);
  const TransformerOptions options{.d_model = 4, .num_heads = 2, .dropout = 0.5};
  const MultiHeadAttention a(Scope(parameters) / "a", options, AttentionRole::self);
  const MultiHeadAttention b(Scope(parameters) / "b", options, AttentionRole::self);
  for (const NamedTensor& p : parameters) {
    if (!p.name.starts_with("b.")) continue;
    Tensor copy = p.tensor;
    const Tensor original = parameter(parameters, "a." + p.name.substr(2));
    std::ranges::copy(original.values<double>(), copy.mutable_values<double>().begin());
  }
  const Tensor x = random_leaf({2, 3, 4}, 1);
  CHECK(values_of(a(x, x, {}, {})) == values_of(b(x, x, {}, {})));
  CHECK(values_of(a(x, x, {}, RandomStream(1))) != values_of(b(x, x, {}, RandomStream(1))));
}

TEST_CASE("the gradients of multi-head attention agree with differences, with dropout too") {
  for (const double rate : {0.0, 0.4}) {
    const Attention attention(4, 2, rate);
    perturb(attention.parameters);
    const Tensor queries = random_leaf({2, 3, 4}, 1);
    const Tensor memory = random_leaf({2, 5, 4}, 2);
    const RandomStream random(5);
    check_gradients(
        [&] {
          return attention.layer(queries, memory, AttentionMask::padding({5, 2}), random);
        },
        attention.parameters, {queries, memory});
    check_gradients(
        [&] { return attention.layer(memory, memory, AttentionMask::causal(), random); },
        attention.parameters, {memory});
  }
}

TEST_CASE("multi-head attention refuses what does not fit, naming the layer") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float64); };
  const Attention attention(4, 2);
  CHECK_THROWS_WITH_AS(Attention(6, 4),
                       "attn: multi-head attention: d_model 6 is not a multiple of num_heads 4",
                       ShapeError);
  CHECK_THROWS_WITH_AS(Attention(6, 0),
                       "attn: multi-head attention: d_model 6 is not a multiple of num_heads 0",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      attention.layer(zeros({1, 2, 3}), zeros({1, 2, 4}), {}, {}),
      "attn.q_proj: linear: x has shape (1, 2, 3), expected last axis 4 (weight is "
      "(4, 4))",
      ShapeError);
  CHECK_THROWS_WITH_AS(attention.layer(zeros({2, 2, 4}), zeros({1, 2, 4}), {}, {}),
                       "attn: scaled_dot_product_attention: q has shape (2, 2, 4) and k (1, 2, 4), "
                       "expected equal first and last axes",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      attention.layer(zeros({2, 2, 4}), zeros({2, 2, 4}), AttentionMask::padding({1}), {}),
      "attn: scaled_dot_product_attention: the padding mask has 1 lengths, expected 2 (the batch "
      "size)",
      ShapeError);
  const Attention all_dropped(4, 2, 1.5);
  CHECK_THROWS_WITH_AS(all_dropped.layer(zeros({1, 1, 4}), zeros({1, 1, 4}), {}, {}),
                       "attn: scaled_dot_product_attention: dropout is 1.5, expected 0 to 1",
                       ValueError);
}

namespace {

constexpr AttentionScore every_score[] = {AttentionScore::scaled_dot_product,
                                          AttentionScore::dot_product, AttentionScore::additive,
                                          AttentionScore::bilinear};

TransformerOptions with_score(AttentionScore score, double dropout = 0.0) {
  return {.d_model = 4, .num_heads = 2, .score = score, .dropout = dropout};
}

}  // namespace

TEST_CASE("scores with parameters have one weight for each head") {
  const auto own = [](AttentionScore score) {
    const Attention attention(with_score(score));
    const auto names = listing(attention.parameters);
    return std::vector<std::string>(names.begin() + 8, names.end());
  };
  CHECK(own(AttentionScore::dot_product).empty());
  CHECK(own(AttentionScore::additive) == std::vector<std::string>{"attn.score.weight (2, 2)"});
  CHECK(own(AttentionScore::bilinear) == std::vector<std::string>{"attn.score.weight (2, 2, 2)"});
}

TEST_CASE("each score has the weights of its formula") {
  const double root = std::sqrt(2.0);
  const auto first_weight = [](double s1, double s2) { return 1 / (1 + std::exp(s2 - s1)); };
  const auto check = [&](AttentionScore score, std::initializer_list<double> weight,
                         double expected) {
    for (const DType dtype : dtypes) {
      const Attention attention({.d_model = 2, .num_heads = 1, .score = score, .dropout = 0.0},
                                dtype);
      make_projections_identities(attention.parameters);
      if (weight.size() != 0) set_values(attention.parameters, "attn.score.weight", weight);
      const Tensor q = Tensor::from({1, 1, 2}, {1, 2}, dtype);
      const Tensor k = Tensor::from({1, 2, 2}, {1, 0, 0, 1}, dtype);
      check_values(weights_of(attention.layer, q, k, {}), {expected, 1 - expected},
                   tolerance(dtype));
    }
  };
  check(AttentionScore::scaled_dot_product, {}, first_weight(1 / root, 2 / root));
  check(AttentionScore::dot_product, {}, first_weight(1, 2));
  check(AttentionScore::additive, {3, -5},
        first_weight(3 * std::tanh(2) - 5 * std::tanh(2), 3 * std::tanh(1) - 5 * std::tanh(3)));
  check(AttentionScore::bilinear, {1, 10, 100, 1000}, first_weight(1 + 20, 100 + 2000));
  check(AttentionScore::bilinear, {0.1, 0.2, 0.3, 0.4}, first_weight(0.5, 1.1));  // W q
}

TEST_CASE("the gradients of every score agree with differences, with dropout too") {
  for (const AttentionScore score : every_score) {
    for (const double rate : {0.0, 0.4}) {
      const Attention attention(with_score(score, rate));
      perturb(attention.parameters);
      const Tensor queries = random_leaf({2, 3, 4}, 1), memory = random_leaf({2, 5, 4}, 2);
      const RandomStream random(5);
      check_gradients(
          [&] {
            return attention.layer(queries, memory, AttentionMask::padding({5, 2}), random);
          },
          attention.parameters, {queries, memory});
    }
  }
}

TEST_CASE("heads may be of any width, with an output projection of their own") {
  const Attention attention({.d_model = 5, .num_heads = 2, .d_head = 3, .dropout = 0.0});
  CHECK(listing(attention.parameters) ==
        std::vector<std::string>{"attn.q_proj.weight (6, 5)", "attn.q_proj.bias (6)",
                                 "attn.k_proj.weight (6, 5)", "attn.k_proj.bias (6)",
                                 "attn.v_proj.weight (6, 5)", "attn.v_proj.bias (6)",
                                 "attn.out_proj.weight (5, 6)", "attn.out_proj.bias (5)"});
  perturb(attention.parameters);
  const Tensor queries = random_leaf({2, 2, 5}, 1), memory = random_leaf({2, 3, 5}, 2);
  const Tensor bias = Tensor::zeros({2, 1, 3}, DType::float64);
  check_values(attention.layer(queries, memory, {}, {}),
               values_of(composed(attention.parameters, queries, memory, 2, bias)));
  check_gradients([&] { return attention.layer(queries, memory, {}, {}); }, attention.parameters,
                  {queries, memory});
}

TEST_CASE("parameter-free attention weights the vectors themselves by softmax(X X^T)") {
  for (const DType dtype : dtypes) {
    const Attention attention({.d_model = 2,
                               .num_heads = 1,
                               .attention = AttentionKind::parameter_free,
                               .score = AttentionScore::dot_product,
                               .dropout = 0.0},
                              dtype);
    CHECK(attention.parameters.list().empty());
    const double ln2 = std::log(2.0);
    const double a = std::sqrt(ln2);  // a^2 = ln 2
    const Tensor x = Tensor::from({1, 2, 2}, {a, 0, 0, 2 * a}, dtype);
    // X X^T = ((ln 2, 0), (0, 4 ln 2)): weights (2, 1) / 3 and (1, 16) / 17.
    check_values(weights_of(attention.layer, x, x, {}), {2. / 3, 1. / 3, 1. / 17, 16. / 17},
                 tolerance(dtype));
    check_values(attention.layer(x, x, {}, {}), {2 * a / 3, 2 * a / 3, a / 17, 32 * a / 17},
                 tolerance(dtype));
  }
}

TEST_CASE("the scaled score divides X X^T of parameter-free attention by the root of d_model") {
  const Attention attention(
      {.d_model = 4, .num_heads = 1, .attention = AttentionKind::parameter_free, .dropout = 0.0});
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const Tensor scores = matmul(x, x, {.transpose_b = true, .scale = 0.5});
  check_values(attention.layer(x, x, {}, {}), values_of(matmul(softmax(scores), x)));
  CHECK(gradient_error([&] { return attention.layer(x, x, AttentionMask::causal(), {}); }, {x}) <
        1e-6);
}

TEST_CASE("a window restricts self-attention beside its mask, and no cross-attention") {
  const TransformerOptions narrow{.d_model = 4, .num_heads = 2, .window = 1, .dropout = 0.0};
  const Attention attention(narrow);
  const Tensor x = random_leaf({2, 5, 4}, 1);
  const auto w = values_of(weights_of(attention.layer, x, x, AttentionMask::padding({5, 4})));
  for (std::size_t row = 0; row < 20; ++row) {
    const std::size_t i = row % 5;
    for (std::size_t j = 0; j < 5; ++j) {
      const bool seen = j + 1 >= i && j <= i + 1 && (row < 10 || j < 4);
      CHECK((w[row * 5 + j] > 0) == seen);
    }
  }
  const Attention cross(narrow, DType::float64, AttentionRole::cross);
  for (const double weight : values_of(weights_of(cross.layer, x, x, {}))) CHECK(weight > 0);
}

namespace {

TransformerOptions with_positions(PositionKind positions,
                                  AttentionScore score = AttentionScore::scaled_dot_product) {
  return {.d_model = 8, .num_heads = 2, .score = score, .dropout = 0.0, .positions = positions};
}

/// The weights of one head for equal vectors at all positions.
std::vector<double> weights_among_equals(const TransformerOptions& options, AttentionRole role) {
  const Attention attention(options, DType::float64, role);
  perturb(attention.parameters);
  const auto one = values_of(random_leaf({8}, 1));
  std::vector<double> all;
  for (int i = 0; i < 6; ++i) all.insert(all.end(), one.begin(), one.end());
  const Tensor x = Tensor::from({1, 6, 8}, all, DType::float64);
  auto weights = values_of(weights_of(attention.layer, x, x, {}));
  weights.resize(36);
  return weights;
}

}  // namespace

TEST_CASE("scores of rotary positions and of ALiBi depend on the distance alone") {
  for (const PositionKind kind : {PositionKind::rotary, PositionKind::alibi}) {
    for (const AttentionScore score :
         {AttentionScore::scaled_dot_product, AttentionScore::bilinear}) {
      const auto w = weights_among_equals(with_positions(kind, score), AttentionRole::self);
      for (std::size_t i = 0; i + 1 < 6; ++i) {
        for (std::size_t j = 0; j + 1 < 6; ++j) {
          // Ratios within a row are those of the row below, one to the right.
          const double here = w[i * 6 + j] / w[i * 6 + i];
          const double below = w[(i + 1) * 6 + j + 1] / w[(i + 1) * 6 + i + 1];
          CHECK(here == doctest::Approx(below).epsilon(1e-10));
        }
      }
      CHECK(w[0] != doctest::Approx(w[1]).epsilon(1e-6));
    }
  }
}

TEST_CASE("rotary positions and ALiBi act on self-attention alone") {
  for (const PositionKind kind : {PositionKind::rotary, PositionKind::alibi}) {
    for (const double weight : weights_among_equals(with_positions(kind), AttentionRole::cross)) {
      CHECK(weight == doctest::Approx(1.0 / 6).epsilon(1e-14));
    }
  }
}

TEST_CASE("the last queries alone have the outputs that they have among all, by any positions") {
  for (const PositionKind kind : {PositionKind::none, PositionKind::rotary, PositionKind::alibi}) {
    const Attention attention(with_positions(kind));
    const Tensor x = random_leaf({1, 5, 8}, 1);
    const auto all = values_of(attention.layer(x, x, AttentionMask::causal(), {}));
    const Tensor last = slice(x, 1, 3, 5);
    check_values(attention.layer(last, x, AttentionMask::causal(), {}),
                 {all.begin() + 24, all.end()});
  }
}

TEST_CASE("the gradients of attention with positions agree with differences") {
  for (const PositionKind kind : {PositionKind::rotary, PositionKind::alibi}) {
    for (const AttentionScore score : every_score) {
      const Attention attention(with_positions(kind, score));
      perturb(attention.parameters);
      const Tensor x = random_leaf({2, 4, 8}, 1);
      check_gradients(
          [&] {
            return attention.layer(x, x, AttentionMask::padding({4, 3}), {});
          },
          attention.parameters, {x}, {.max_coordinates = 12});
    }
  }
}

TEST_CASE("parameter-free attention refuses heads, widths and scores with parameters") {
  const auto make = [](std::size_t heads, std::size_t d_head, AttentionScore score) {
    return Attention({.d_model = 4,
                      .num_heads = heads,
                      .attention = AttentionKind::parameter_free,
                      .score = score,
                      .d_head = d_head});
  };
  CHECK_THROWS_WITH_AS(make(2, 0, AttentionScore::dot_product),
                       "attn: parameter-free attention: num_heads is 2 and d_head 0, the score has "
                       "no parameters, expected 1, 0 and a score without",
                       ValueError);
  CHECK_THROWS_AS(make(1, 4, AttentionScore::dot_product), ValueError);
  CHECK_THROWS_AS(make(1, 0, AttentionScore::additive), ValueError);
  CHECK_THROWS_AS(make(1, 0, AttentionScore::bilinear), ValueError);
}
