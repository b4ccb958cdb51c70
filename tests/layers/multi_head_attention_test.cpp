// SPDX-License-Identifier: BSD-3-Clause
#include "layers/multi_head_attention.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/attention_trace.h"
#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/shape_ops.h"
#include "tests/layers/transformer_cases.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// A layer named `attn` with new parameters.
struct Attention {
  Attention(std::size_t d_model, std::size_t num_heads, double dropout = 0.0,
            DType dtype = DType::float64)
      : Attention(d_model, {.num_heads = num_heads, .dropout = dropout}, dtype) {}
  Attention(std::size_t d_model, const MultiHeadAttentionOptions& options,
            DType dtype = DType::float64)
      : parameters(dtype, 1), layer(Scope(parameters) / "attn", d_model, options) {}

  Parameters parameters;
  MultiHeadAttention layer;
};

/// The attention weights of a call.
Tensor weights_of(const MultiHeadAttention& layer, const Tensor& queries, const Tensor& memory,
                  const AttentionMask& mask) {
  const AttentionRecorder recorder;
  layer(queries, memory, mask, Mode::inference());
  return recorder.records().at(0).weights;
}

/// Makes all four projections the identity, for d_model 2.
void make_projections_identities(const Parameters& parameters) {
  for (const char* projection : {"q", "k", "v", "out"}) {
    set_values(parameters, fmt::format("attn.{}_proj.weight", projection), {1, 0, 0, 1});
  }
}

/// The output of the layer, computed with small operations. `bias` is added to the scores of each
/// head.
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

TEST_CASE("by default, multi-head attention has 8 heads and no dropout") {
  const Tensor x = random_leaf({2, 3, 16}, 1);
  Parameters parameters(DType::float64, 1);
  const MultiHeadAttention layer(Scope(parameters) / "attn", 16);
  CHECK(weights_of(layer, x, x, {}).shape() == Shape{2, 8, 3, 3});
  CHECK(values_of(layer(x, x, {}, Mode::training(RandomStream(1)))) ==
        values_of(layer(x, x, {}, Mode::inference())));
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

TEST_CASE("two layers with equal parameters and the same stream drop different attention weights") {
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

TEST_CASE("multi-head attention rejects invalid sizes and inputs, and the error names the layer") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float64); };
  const Attention attention(4, 2);
  check_error<ShapeError>("attn: multi-head attention:|6|4", [&] { Attention(6, 4); });
  check_error<ShapeError>("attn: multi-head attention:|6|0", [&] { Attention(6, 0); });
  CHECK_THROWS_AS(Attention(6, {.num_heads = 0, .d_head = 2}), ShapeError);
  CHECK_NOTHROW(Attention(6, {.num_heads = 4, .d_head = 2}));
  check_error<ShapeError>("attn.q_proj: linear:|(1, 2, 3)|4|(4, 4)", [&] {
    attention.layer(zeros({1, 2, 3}), zeros({1, 2, 4}), {}, Mode::inference());
  });
  check_error<ShapeError>("attn: scaled_dot_product_attention:|(2, 2, 4)|(1, 2, 4)", [&] {
    attention.layer(zeros({2, 2, 4}), zeros({1, 2, 4}), {}, Mode::inference());
  });
  check_error<ShapeError>("attn: scaled_dot_product_attention:|1|2", [&] {
    attention.layer(zeros({2, 2, 4}), zeros({2, 2, 4}), AttentionMask::padding({1}),
                    Mode::inference());
  });
  const Attention all_dropped(4, 2, 1.5);
  check_error<ValueError>("attn: scaled_dot_product_attention:|1.5|0|1", [&] {
    all_dropped.layer(zeros({1, 1, 4}), zeros({1, 1, 4}), {}, Mode::inference());
  });
}

/// All kinds of attention that a config can select: scores, head widths, parameter-free attention,
/// windows and positions.

namespace {

Attention with_score(AttentionScore score, double dropout = 0.0) {
  return Attention(4, {.num_heads = 2, .score = score, .dropout = dropout});
}

}  // namespace

TEST_CASE("attention scores with parameters have one weight for each head") {
  const auto own = [](AttentionScore score) {
    const Attention attention = with_score(score);
    const auto names = listing(attention.parameters);
    return std::vector<std::string>(names.begin() + 8, names.end());
  };
  CHECK(own(AttentionScore::dot_product).empty());
  CHECK(own(AttentionScore::additive) == std::vector<std::string>{"attn.score.weight (2, 2)"});
  CHECK(own(AttentionScore::bilinear) == std::vector<std::string>{"attn.score.weight (2, 2, 2)"});
}

TEST_CASE("the weights of each kind of score follow its formula") {
  const double root = std::sqrt(2.0);
  const auto first_weight = [](double s1, double s2) { return 1 / (1 + std::exp(s2 - s1)); };
  const auto check = [&](AttentionScore score, std::initializer_list<double> weight,
                         double expected) {
    for (const DType dtype : dtypes) {
      const Attention attention(2, {.num_heads = 1, .score = score}, dtype);
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

TEST_CASE("heads may have any width, which determines the widths of the projections") {
  const Attention attention(5, {.num_heads = 2, .d_head = 3});
  CHECK(listing(attention.parameters) ==
        std::vector<std::string>{"attn.q_proj.weight (6, 5)", "attn.q_proj.bias (6)",
                                 "attn.k_proj.weight (6, 5)", "attn.k_proj.bias (6)",
                                 "attn.v_proj.weight (6, 5)", "attn.v_proj.bias (6)",
                                 "attn.out_proj.weight (5, 6)", "attn.out_proj.bias (5)"});
  perturb(attention.parameters);
  const Tensor queries = random_leaf({2, 2, 5}, 1), memory = random_leaf({2, 3, 5}, 2);
  const Tensor bias = Tensor::zeros({2, 1, 3}, DType::float64);
  check_values(attention.layer(queries, memory, {}, Mode::inference()),
               values_of(composed(attention.parameters, queries, memory, 2, bias)));
  check_gradients([&] { return attention.layer(queries, memory, {}, Mode::inference()); },
                  attention.parameters, {queries, memory});
}

TEST_CASE("parameter-free attention computes softmax(X X^T) X") {
  for (const DType dtype : dtypes) {
    const Attention attention(2,
                              {.kind = AttentionKind::parameter_free,
                               .num_heads = 1,
                               .score = AttentionScore::dot_product},
                              dtype);
    CHECK(attention.parameters.list().empty());
    const double ln2 = std::log(2.0);
    const double a = std::sqrt(ln2);  // a^2 = ln 2
    const Tensor x = Tensor::from({1, 2, 2}, {a, 0, 0, 2 * a}, dtype);
    // X X^T = ((ln 2, 0), (0, 4 ln 2)): weights (2, 1) / 3 and (1, 16) / 17.
    check_values(weights_of(attention.layer, x, x, {}), {2. / 3, 1. / 3, 1. / 17, 16. / 17},
                 tolerance(dtype));
    check_values(attention.layer(x, x, {}, Mode::inference()),
                 {2 * a / 3, 2 * a / 3, a / 17, 32 * a / 17}, tolerance(dtype));
  }
}

TEST_CASE("a window restricts attention in addition to the mask, which is unchanged by default") {
  const Attention attention(4, {.num_heads = 2, .window = 1});
  const Tensor x = random_leaf({2, 5, 4}, 1);
  const auto w = values_of(weights_of(attention.layer, x, x, AttentionMask::padding({5, 4})));
  for (std::size_t row = 0; row < 20; ++row) {
    const std::size_t i = row % 5;
    for (std::size_t j = 0; j < 5; ++j) {
      const bool seen = j + 1 >= i && j <= i + 1 && (row < 10 || j < 4);
      CHECK((w[row * 5 + j] > 0) == seen);
    }
  }
  const Attention wide(4, {.num_heads = 2, .window = 0});
  for (const double weight : values_of(weights_of(wide.layer, x, x, {}))) CHECK(weight > 0);
}

namespace {

constexpr MultiHeadAttentionOptions without_positions{.num_heads = 2};
constexpr MultiHeadAttentionOptions with_rotary{.num_heads = 2, .rotary = true};
constexpr MultiHeadAttentionOptions with_alibi{.num_heads = 2, .alibi = true};

MultiHeadAttentionOptions with_score(MultiHeadAttentionOptions options, AttentionScore score) {
  options.score = score;
  return options;
}

/// The weights of one head for equal vectors at all positions.
std::vector<double> weights_among_equals(const MultiHeadAttentionOptions& options) {
  const Attention attention(8, options);
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

TEST_CASE("attention scores with rotary positions and ALiBi depend only on the distance") {
  for (const MultiHeadAttentionOptions& options : {with_rotary, with_alibi}) {
    for (const AttentionScore score :
         {AttentionScore::scaled_dot_product, AttentionScore::bilinear}) {
      const auto w = weights_among_equals(with_score(options, score));
      for (std::size_t i = 0; i + 1 < 6; ++i) {
        for (std::size_t j = 0; j + 1 < 6; ++j) {
          // Ratios within a row equal the ratios of the next row, shifted right by one.
          const double here = w[i * 6 + j] / w[i * 6 + i];
          const double below = w[(i + 1) * 6 + j + 1] / w[(i + 1) * 6 + i + 1];
          CHECK(here == doctest::Approx(below).epsilon(1e-10));
        }
      }
      CHECK(w[0] != doctest::Approx(w[1]).epsilon(1e-6));
    }
  }
}

TEST_CASE("bilinear scores with rotary positions apply W to the query before its rotation") {
  using Pair = std::array<double, 2>;
  const auto rotated = [](const Pair& x, double angle) {  // at position m the angle is m
    return Pair{std::cos(angle) * x[0] - std::sin(angle) * x[1],
                std::sin(angle) * x[0] + std::cos(angle) * x[1]};
  };
  const Attention attention(2, {.num_heads = 1, .score = AttentionScore::bilinear, .rotary = true});
  make_projections_identities(attention.parameters);
  set_values(attention.parameters, "attn.score.weight", {1.0, 2.0, 0.5, -1.0});
  const Pair x[] = {{1.0, 0.5}, {-0.5, 0.75}, {0.25, -1.0}};
  const Tensor all = Tensor::from({1, 3, 2}, {1.0, 0.5, -0.5, 0.75, 0.25, -1.0}, DType::float64);
  std::vector<double> expected;
  for (int i = 0; i < 3; ++i) {
    const Pair wq = {x[i][0] + 2.0 * x[i][1], 0.5 * x[i][0] - x[i][1]};
    double e[3], total = 0.0;
    for (int j = 0; j < 3; ++j) {
      const Pair r = rotated(wq, i - j);
      total += e[j] = std::exp(x[j][0] * r[0] + x[j][1] * r[1]);
    }
    for (const double weight : e) expected.push_back(weight / total);
  }
  check_values(weights_of(attention.layer, all, all, {}), expected, 1e-12);
}

TEST_CASE(
    "with all position kinds, the output of the last queries does not depend on other queries") {
  for (const auto& options : {without_positions, with_rotary, with_alibi}) {
    const Attention attention(8, options);
    const Tensor x = random_leaf({1, 5, 8}, 1);
    const auto all = values_of(attention.layer(x, x, AttentionMask::causal(), Mode::inference()));
    const Tensor last = slice(x, 1, 3, 5);
    check_values(attention.layer(last, x, AttentionMask::causal(), Mode::inference()),
                 {all.begin() + 24, all.end()});
  }
}

TEST_CASE(
    "parameter-free attention rejects several heads, a head width, and scores with parameters") {
  const auto make = [](std::size_t heads, std::size_t d_head, AttentionScore score) {
    return Attention(4, {.kind = AttentionKind::parameter_free,
                         .num_heads = heads,
                         .d_head = d_head,
                         .score = score});
  };
  check_error<ValueError>("attn: parameter-free attention:|2|0|1",
                          [&] { make(2, 0, AttentionScore::dot_product); });
  check_error<ValueError>("attn: parameter-free attention:|1|4|0",
                          [&] { make(1, 4, AttentionScore::dot_product); });
  check_error<ValueError>("attn: parameter-free attention:|1|0",
                          [&] { make(1, 0, AttentionScore::additive); });
  CHECK_THROWS_AS(make(1, 0, AttentionScore::bilinear), ValueError);
}

/// Properties of every kind of attention: the output depends on the order of tokens only through
/// positions, and a decoder does not attend to later tokens.
namespace {

constexpr PositionKind every_position[] = {PositionKind::sinusoidal, PositionKind::learned,
                                           PositionKind::rotary, PositionKind::alibi};

/// Every kind of attention, without positions.
std::vector<TransformerOptions> every_attention() {
  std::vector<TransformerOptions> all;
  using enum AttentionScore;
  for (const AttentionScore score : {scaled_dot_product, dot_product, additive, bilinear}) {
    TransformerOptions options = small();
    options.score = score;
    options.positions = PositionKind::none;
    all.push_back(options);
  }
  TransformerOptions wide = all[0];
  wide.d_head = 10;
  TransformerOptions bare = all[0];
  bare.attention = AttentionKind::parameter_free;
  bare.num_heads = 1;
  all.insert(all.end(), {wide, bare});
  return all;
}

const std::vector<std::size_t> order = {3, 0, 4, 2, 1};

TokenBatch sentence(const std::vector<std::size_t>& places) {
  const std::vector<std::int32_t> ids = {5, 6, 7, 8, 9};
  TokenBatch batch{.ids = {{0, 0, 0, 0, 0}}, .lengths = {5}};
  for (std::size_t t = 0; t < 5; ++t) batch.ids(0, t) = ids[places[t]];
  return batch;
}

/// The largest difference between the encoder's outputs for a token in a sentence and for the same
/// token after reordering the sentence.
double dependence_on_order(const TransformerOptions& options) {
  const TestTransformer model(options);
  const auto plain =
      values_of(model.transformer.encode(sentence({0, 1, 2, 3, 4}), Mode::inference()));
  const auto permuted = values_of(model.transformer.encode(sentence(order), Mode::inference()));
  double largest = 0.0;
  for (std::size_t t = 0; t < 5; ++t) {
    for (std::size_t c = 0; c < options.d_model; ++c) {
      const double difference =
          permuted[t * options.d_model + c] - plain[order[t] * options.d_model + c];
      largest = std::max(largest, std::abs(difference));
    }
  }
  return largest;
}

}  // namespace

TEST_CASE("an encoder without positions is equivariant to permutations, for every attention") {
  for (const TransformerOptions& options : every_attention()) {
    CHECK(dependence_on_order(options) < 1e-12);
  }
}

TEST_CASE("with positions of any kind, the encoder output depends on the order of tokens") {
  for (const PositionKind positions : every_position) {
    TransformerOptions options = small();
    options.positions = positions;
    CHECK(dependence_on_order(options) > 1e-4);
  }
}

TEST_CASE("the decoder never attends to later tokens, for every attention and position kind") {
  std::vector<TransformerOptions> all = every_attention();
  for (const PositionKind positions : every_position) {
    TransformerOptions options = small();
    options.positions = positions;
    all.push_back(options);
    options.window = 2;
    all.push_back(options);
  }
  const TokenBatch read = sentence({0, 1, 2, 3, 4});
  for (const TransformerOptions& options : all) {
    const TestTransformer model(options);
    const auto logits = [&](const TokenBatch& written) {
      return values_of(model.transformer(read, written, Mode::inference()));
    };
    const auto before = logits(read);
    for (std::size_t changed = 0; changed < 5; ++changed) {
      TokenBatch other = read;
      other.ids(0, changed) = 10;
      const auto after = logits(other);
      const auto first = static_cast<std::ptrdiff_t>(changed * vocabulary);
      CHECK(std::equal(before.begin(), before.begin() + first, after.begin()));
      CHECK_FALSE(std::equal(before.begin() + first, before.begin() + first + vocabulary,
                             after.begin() + first));
    }
  }
}

TEST_CASE(
    "an AttentionRecorder records the weights of every layer and head in the order of the calls") {
  const TestTransformer model(small());
  const AttentionRecorder recorder;
  model.transformer(source, target, Mode::inference());
  std::vector<std::string> lines;
  for (const auto& [path, weights] : recorder.records()) {
    lines.push_back(path + " " + to_string(weights.shape()));
  }
  CHECK(lines == std::vector<std::string>{
                     "encoder.layers.0.self_attn (3, 2, 4, 4)",
                     "encoder.layers.1.self_attn (3, 2, 4, 4)",
                     "decoder.layers.0.self_attn (3, 2, 3, 3)",
                     "decoder.layers.0.cross_attn (3, 2, 3, 4)",
                     "decoder.layers.1.self_attn (3, 2, 3, 3)",
                     "decoder.layers.1.cross_attn (3, 2, 3, 4)",
                 });
}
