#include "autograd/ops/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/tape.h"
#include "tests/autograd/ops/attend.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The same values with heads of width d pulled out of the last axis: head h alone.
Tensor head_of(const Tensor& x, std::size_t h, std::size_t d) {
  const auto all = values_of(x);
  std::vector<double> own;
  for (std::size_t row = 0; row < x.size() / x.shape().back(); ++row) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * x.shape().back() + h * d);
    own.insert(own.end(), begin, begin + static_cast<std::ptrdiff_t>(d));
  }
  return Tensor::from(x.shape().with_last(d), own, x.dtype());
}

}  // namespace

TEST_CASE("scores 112 and 96 with d_k = 64 give 14 and 12 and the weights 0.88 and 0.12") {
  std::vector<double> keys(128, 1.0);
  for (std::size_t i = 64; i < 128; ++i) keys[i] = 96.0 / 112.0;
  const Tensor q = Tensor::full({1, 1, 64}, 112.0 / 64.0, DType::float64);
  const Tensor k = Tensor::from({1, 2, 64}, keys, DType::float64);
  const Tensor scores = matmul(q, k, {.transpose_b = true, .scale = 1.0 / std::sqrt(64.0)});
  check_values(scores, {14, 12});
  const Tensor weights = attention_weights(q, k);
  check_values(weights, {0.88, 0.12}, 0.002);
  check_values(weights, {1 / (1 + std::exp(-2.0)), 1 / (1 + std::exp(2.0))});
}

TEST_CASE("queries (1,2) and (1,1) over unit keys and values give (0.33, 0.67) and (0.50, 0.50)") {
  for (const DType dtype : dtypes) {
    const Tensor q = Tensor::from({1, 2, 2}, {1, 2, 1, 1}, dtype);
    const Tensor unit = Tensor::from({1, 2, 2}, {1, 0, 0, 1}, dtype);
    const Tensor scores = matmul(q, unit, {.transpose_b = true, .scale = 1.0 / std::sqrt(2.0)});
    check_values(scores, {0.71, 1.41, 0.71, 0.71}, 0.01);
    check_values(scaled_dot_product_attention(q, unit, unit), {0.33, 0.67, 0.50, 0.50}, 0.01);
  }
}

TEST_CASE("attention equals softmax(scale q k^T) v composed from its parts, values and gradients") {
  const Tensor q = random_leaf({2, 3, 4}, 1);
  const Tensor k = random_leaf({2, 5, 4}, 2);
  const Tensor v = random_leaf({2, 5, 3}, 3);
  const auto composed = [&] {
    return matmul(softmax(matmul(q, k, {.transpose_b = true, .scale = 0.5})), v);
  };
  const auto run = [&](const Tensor& y, Tape& tape) {
    tape.backward(y, Tensor::from(y.shape(),
                                  std::vector<double>{1, -2, 3, .5, 1, 2, -1, 1, 4, 2, 2, -3, 1, 1,
                                                      1, -.5, 2, 1},
                                  DType::float64));
    std::vector<std::vector<double>> all{values_of(y)};
    for (Tensor leaf : {q, k, v}) {
      all.push_back(values_of(leaf.gradient()));
      leaf.clear_gradient();
    }
    return all;
  };
  Tape first;
  const auto fused = run(scaled_dot_product_attention(q, k, v), first);
  Tape second;
  const auto plain = run(composed(), second);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    for (std::size_t j = 0; j < plain[i].size(); ++j) {
      CHECK(fused[i][j] == doctest::Approx(plain[i][j]).epsilon(1e-13));
    }
  }
}

TEST_CASE("a given scale replaces 1 / sqrt(d_k), in the gradients too") {
  const Tensor q = Tensor::from({1, 1, 1}, {2.0}, DType::float64);
  const Tensor k = Tensor::from({1, 2, 1}, {0.0, std::log(3.0)}, DType::float64);
  check_values(attention_weights(q, k, {.scale = 0.5}), {0.25, 0.75});  // scores 0 and ln 3
  check_values(attention_weights(q, k, {.scale = 0.0}), {0.5, 0.5});
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const AttentionOptions options{.num_heads = 2, .scale = 0.3};
  CHECK(gradient_error([&] { return scaled_dot_product_attention(x, x, x, options); }, {x}) < 1e-6);
}

TEST_CASE("scaling scores by 1 / sqrt(d) is scaling queries and keys by d^(-1/4)") {
  const Tensor q = random_leaf({2, 3, 4}, 1), k = random_leaf({2, 5, 4}, 2);
  const Tensor v = random_leaf({2, 5, 3}, 3);
  const AttentionOptions masked{.mask = AttentionMask::padding({5, 2})};
  AttentionOptions unscaled = masked;
  unscaled.scale = 1.0;
  const double factor = std::pow(4.0, -0.25);
  const auto run = [&](const std::function<Tensor()>& function) {
    Tape tape;
    const Tensor y = function();
    tape.backward(y, y);
    std::vector<double> all = values_of(y);
    for (Tensor leaf : {q, k, v}) {
      for (const double g : values_of(leaf.gradient())) all.push_back(g);
      leaf.clear_gradient();
    }
    return all;
  };
  const auto scores = run([&] { return scaled_dot_product_attention(q, k, v, masked); });
  const auto both = run([&] {
    return scaled_dot_product_attention(scale(q, factor), scale(k, factor), v, unscaled);
  });
  REQUIRE(both.size() == scores.size());
  for (std::size_t i = 0; i < both.size(); ++i) {
    CHECK(both[i] == doctest::Approx(scores[i]).epsilon(1e-13).scale(1.0));
  }
}

TEST_CASE("attention heads are adjacent columns and do not mix") {
  const Tensor q = random_leaf({2, 3, 6}, 1);
  const Tensor k = random_leaf({2, 4, 6}, 2);
  const Tensor v = random_leaf({2, 4, 6}, 3);
  const Tensor y = scaled_dot_product_attention(q, k, v, {.num_heads = 3});
  for (std::size_t h = 0; h < 3; ++h) {
    check_values(head_of(y, h, 2), values_of(scaled_dot_product_attention(
                                       head_of(q, h, 2), head_of(k, h, 2), head_of(v, h, 2))));
  }
}

TEST_CASE("queries, keys and values may be one tensor, and some may require no gradient") {
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const Tensor fixed = random_leaf({2, 3, 4}, 2).copied(DType::float64);
  CHECK(gradient_error([&] { return attend(x, x, x, AttentionMask::causal(), 2); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return attend(x, fixed, fixed, {}, 2); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return attend(fixed, x, fixed, {}, 2); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return attend(fixed, fixed, x, {}, 2); }, {x}) < 1e-6);
}

TEST_CASE("any two of queries, keys and values may be one tensor") {
  const Tensor x = random_leaf({2, 3, 4}, 1), other = random_leaf({2, 3, 4}, 2);
  CHECK(gradient_error([&] { return attend(x, x, other, {}, 2); }, {x, other}) < 1e-6);
  CHECK(gradient_error([&] { return attend(x, other, x, {}, 2); }, {x, other}) < 1e-6);
  CHECK(gradient_error([&] { return attend(other, x, x, {}, 2); }, {x, other}) < 1e-6);
}

TEST_CASE("attention over several tiles equals the composed form, values and gradients") {
  const Tensor q = random_leaf({1, 150, 4}, 1);
  const Tensor v = random_leaf({1, 150, 4}, 2);
  const auto composed = [&] {
    return matmul(softmax(matmul(q, q, {.transpose_b = true, .scale = 0.5})), v);
  };
  const auto fused = values_of(scaled_dot_product_attention(q, q, v));
  const auto plain = values_of(composed());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK(fused[i] == doctest::Approx(plain[i]).epsilon(1e-12));
  }
  const AttentionMask mask = AttentionMask::causal() & AttentionMask::window(80);
  CHECK(gradient_error([&] { return attend(q, q, v, mask); }, {q, v}) < 1e-6);
}

namespace {

/// The rows of sentence b of x (batch, n, heads * d), head h alone.
Tensor part_of(const Tensor& x, std::size_t b, std::size_t h, std::size_t heads) {
  const std::size_t n = x.shape()[1], d = x.shape()[2] / heads;
  const auto all = values_of(head_of(x, h, d));
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(b * n * d);
  return Tensor::from(
      {1, n, d}, std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(n * d)), x.dtype());
}

/// y, dq, dk and dv for this dL/dy.
std::vector<Tensor> results_for(const Tensor& q, const Tensor& k, const Tensor& v,
                                const AttentionOptions& options, const Tensor& dy) {
  const auto leaf = [](const Tensor& x) { return x.copied(x.dtype()).require_gradient(); };
  const Tensor own_q = leaf(q), own_k = leaf(k), own_v = leaf(v);
  Tape tape;
  const Tensor y = scaled_dot_product_attention(own_q, own_k, own_v, options);
  tape.backward(y, dy);
  return {y, own_q.gradient(), own_k.gradient(), own_v.gradient()};
}

}  // namespace

TEST_CASE("each head of each sentence of several tiles has the results that it has alone") {
  constexpr std::size_t batch = 2, heads = 3;
  struct Size {
    std::size_t n_q, n_k, radius;
  };
  // Weights computed again for backward; kept; kept, with a first tile that sees nothing.
  for (const Size& size : {Size{130, 70, 50}, Size{130, 20, 200}, Size{130, 20, 30}}) {
    const std::size_t n_q = size.n_q, n_k = size.n_k;
    CAPTURE(n_k);
    CAPTURE(size.radius);
    const std::int32_t lengths[] = {static_cast<std::int32_t>(n_k),
                                    static_cast<std::int32_t>(n_k) - 7};
    const Tensor q = random_leaf({batch, n_q, heads * 2}, 1);
    const Tensor k = random_leaf({batch, n_k, heads * 2}, 2);
    const Tensor v = random_leaf({batch, n_k, heads * 5}, 3);
    const Tensor dy = random_leaf({batch, n_q, heads * 5}, 4).copied(DType::float64);
    const AttentionMask window = AttentionMask::window(size.radius);
    const AttentionOptions all{.num_heads = heads,
                               .mask = AttentionMask::padding(lengths) & window};
    const std::vector<Tensor> together = results_for(q, k, v, all, dy);
    const auto weights = values_of(attention_weights(q, k, all));
    for (std::size_t b = 0; b < batch; ++b) {
      for (std::size_t h = 0; h < heads; ++h) {
        const auto own = [&](const Tensor& x) { return part_of(x, b, h, heads); };
        const AttentionOptions one{.mask = AttentionMask::padding({lengths[b]}) & window};
        const std::vector<Tensor> alone = results_for(own(q), own(k), own(v), one, own(dy));
        for (std::size_t i = 0; i < alone.size(); ++i) {
          check_values(own(together[i]), values_of(alone[i]));
        }
        const auto begin =
            weights.begin() + static_cast<std::ptrdiff_t>((b * heads + h) * n_q * n_k);
        check_values(attention_weights(own(q), own(k), one),
                     {begin, begin + static_cast<std::ptrdiff_t>(n_q * n_k)});
      }
    }
  }
}

TEST_CASE("attention has the same bits on any number of threads") {
  const auto run = [](std::size_t threads) {
    kernels::set_num_threads(threads);
    const Tensor x = random_leaf({3, 100, 8}, 1).copied(DType::float32).require_gradient();
    Tape tape;
    const Tensor y = scaled_dot_product_attention(
        x, x, x, {.num_heads = 2, .dropout = 0.1, .random = RandomStream(1)});
    tape.backward(y, y);
    kernels::set_num_threads(0);
    return std::vector{values_of(y), values_of(x.gradient())};
  };
  CHECK(run(1) == run(2));
}

TEST_CASE("attention refuses shapes that do not fit, with the expected shape") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  const auto call = [&](const Shape& q, const Shape& k, const Shape& v,
                        const AttentionOptions& options) {
    return scaled_dot_product_attention(zeros(q), zeros(k), zeros(v), options);
  };
  CHECK_THROWS_WITH_AS(call({2, 3, 5}, {2, 3, 5}, {2, 3, 5}, {.num_heads = 2}),
                       "scaled_dot_product_attention: q has shape (2, 3, 5), expected (batch, "
                       "length, 2 heads * width)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(call({2, 3, 4}, {2, 5, 3}, {2, 5, 4}, {.num_heads = 2}),
                       "scaled_dot_product_attention: k has shape (2, 5, 3), expected (batch, "
                       "length, 2 heads * width)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(call({2, 3, 4}, {2, 5, 4}, {2, 5, 9}, {.num_heads = 2}),
                       "scaled_dot_product_attention: v has shape (2, 5, 9), expected (batch, "
                       "length, 2 heads * width)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(call({2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {.num_heads = 0}),
                       "scaled_dot_product_attention: q has shape (2, 3, 4), expected (batch, "
                       "length, 0 heads * width)",
                       ShapeError);
  for (const Shape& q : {Shape{3, 4}, Shape{1, 2, 3, 4}, Shape{2, 3, 0}}) {
    CHECK_THROWS_AS(call(q, {2, 3, 4}, {2, 3, 4}, {}), ShapeError);
  }
  CHECK_THROWS_WITH_AS(call({2, 3, 4}, {2, 5, 6}, {2, 5, 4}, {}),
                       "scaled_dot_product_attention: q has shape (2, 3, 4) and k (2, 5, 6), "
                       "expected equal first and last axes",
                       ShapeError);
  CHECK_THROWS_WITH_AS(call({2, 3, 4}, {2, 5, 4}, {1, 5, 4}, {}),
                       "scaled_dot_product_attention: k has shape (2, 5, 4) and v (1, 5, 4), "
                       "expected equal first two axes",
                       ShapeError);
  CHECK_THROWS_WITH_AS(call({2, 3, 4}, {1, 3, 4}, {2, 3, 4}, {}),
                       "scaled_dot_product_attention: q has shape (2, 3, 4) and k (1, 3, 4), "
                       "expected equal first and last axes",
                       ShapeError);
  CHECK_THROWS_WITH_AS(call({2, 3, 4}, {2, 3, 4}, {2, 2, 4}, {}),
                       "scaled_dot_product_attention: k has shape (2, 3, 4) and v (2, 2, 4), "
                       "expected equal first two axes",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      call({2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {.mask = AttentionMask::padding({1})}),
      "scaled_dot_product_attention: the padding mask has 1 lengths, expected 2 (the batch size)",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      call({1, 2, 4}, {1, 3, 4}, {1, 3, 4}, {.mask = AttentionMask::keep(1, 1, 1, {1})}),
      "scaled_dot_product_attention: the keep-mask is (1, 1, 1), expected (1, 2, 3)", ShapeError);
  CHECK_THROWS_WITH_AS(call({1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {.dropout = 1.5}),
                       "scaled_dot_product_attention: dropout is 1.5, expected 0 to 1", ValueError);
  for (const double dropout : {-0.1, std::nan("")}) {
    CHECK_THROWS_AS(call({1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {.dropout = dropout}), ValueError);
  }
  const Tensor single = zeros({1, 1, 1}), wide = Tensor::zeros({1, 1, 1}, DType::float64);
  CHECK_THROWS_AS(scaled_dot_product_attention(single, wide, wide), DTypeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(single, single, wide), DTypeError);
  CHECK_THROWS_AS(AttentionMask::padding({-1}), ValueError);
  CHECK_THROWS_AS(AttentionMask::keep(1, 2, 2, {1}), ShapeError);
}
