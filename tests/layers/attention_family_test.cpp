#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "tests/layers/attention_layer.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/values.h"

/// Every kind of attention that a config can choose: scores, widths of heads, no parameters,
/// windows and positions.
using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr AttentionScore every_score[] = {AttentionScore::scaled_dot_product,
                                          AttentionScore::dot_product, AttentionScore::additive,
                                          AttentionScore::bilinear};

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

TEST_CASE("each score has the weights of its formula") {
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

TEST_CASE("the gradients of every score agree with differences, with dropout too") {
  for (const AttentionScore score : every_score) {
    for (const double rate : {0.0, 0.4}) {
      const Attention attention = with_score(score, rate);
      perturb(attention.parameters);
      const Tensor queries = random_leaf({2, 3, 4}, 1), memory = random_leaf({2, 5, 4}, 2);
      const Mode mode = Mode::training(RandomStream(5));
      check_gradients(
          [&] {
            return attention.layer(queries, memory, AttentionMask::padding({5, 2}), mode);
          },
          attention.parameters, {queries, memory});
    }
  }
}

TEST_CASE("heads may have any width, with an output projection of that width") {
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

TEST_CASE("parameter-free attention weights the vectors themselves by softmax(X X^T)") {
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

TEST_CASE("the scaled score divides X X^T of parameter-free attention by the root of d_model") {
  const Attention attention(4, {.kind = AttentionKind::parameter_free, .num_heads = 1});
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const Tensor scores = matmul(x, x, {.transpose_b = true, .scale = 0.5});
  check_values(attention.layer(x, x, {}, Mode::inference()), values_of(matmul(softmax(scores), x)));
  CHECK(gradient_error(
            [&] { return attention.layer(x, x, AttentionMask::causal(), Mode::inference()); },
            {x}) < 1e-6);
}

TEST_CASE("a window restricts attention in addition to its mask, and none leaves it unchanged") {
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

TEST_CASE("attention scores with rotary positions and ALiBi depend on the distance only") {
  for (const MultiHeadAttentionOptions& options : {with_rotary, with_alibi}) {
    for (const AttentionScore score :
         {AttentionScore::scaled_dot_product, AttentionScore::bilinear}) {
      const auto w = weights_among_equals(with_score(options, score));
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

TEST_CASE("without positions equal vectors have equal attention weights at all places") {
  for (const double weight : weights_among_equals(without_positions)) {
    CHECK(weight == doctest::Approx(1.0 / 6).epsilon(1e-14));
  }
}

TEST_CASE("attention of the last queries alone equals theirs among all, for all position kinds") {
  for (const auto& options : {without_positions, with_rotary, with_alibi}) {
    const Attention attention(8, options);
    const Tensor x = random_leaf({1, 5, 8}, 1);
    const auto all = values_of(attention.layer(x, x, AttentionMask::causal(), Mode::inference()));
    const Tensor last = slice(x, 1, 3, 5);
    check_values(attention.layer(last, x, AttentionMask::causal(), Mode::inference()),
                 {all.begin() + 24, all.end()});
  }
}

TEST_CASE("the gradients of attention with positions agree with differences") {
  for (const MultiHeadAttentionOptions& options : {with_rotary, with_alibi}) {
    for (const AttentionScore score : every_score) {
      const Attention attention(8, with_score(options, score));
      perturb(attention.parameters);
      const Tensor x = random_leaf({2, 4, 8}, 1);
      check_gradients(
          [&] {
            return attention.layer(x, x, AttentionMask::padding({4, 3}), Mode::inference());
          },
          attention.parameters, {x}, {.max_coordinates = 12});
    }
  }
}

TEST_CASE("parameter-free attention refuses heads, widths and scores with parameters") {
  const auto make = [](std::size_t heads, std::size_t d_head, AttentionScore score) {
    return Attention(4, {.kind = AttentionKind::parameter_free,
                         .num_heads = heads,
                         .d_head = d_head,
                         .score = score});
  };
  CHECK_THROWS_WITH_AS(make(2, 0, AttentionScore::dot_product),
                       "attn: parameter-free attention: num_heads is 2 and d_head 0, the score has "
                       "no parameters, expected 1, 0 and a score without",
                       ValueError);
  CHECK_THROWS_WITH_AS(make(1, 4, AttentionScore::dot_product),
                       "attn: parameter-free attention: num_heads is 1 and d_head 4, the score has "
                       "no parameters, expected 1, 0 and a score without",
                       ValueError);
  CHECK_THROWS_WITH_AS(make(1, 0, AttentionScore::additive),
                       "attn: parameter-free attention: num_heads is 1 and d_head 0, the score has "
                       "parameters, expected 1, 0 and a score without",
                       ValueError);
  CHECK_THROWS_AS(make(1, 0, AttentionScore::bilinear), ValueError);
}
