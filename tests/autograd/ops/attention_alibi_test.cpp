#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/kernels/attention_tile.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/tape.h"
#include "tests/autograd/ops/attend.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

std::vector<double> slopes(std::size_t heads) {
  std::vector<double> all;
  for (std::size_t h = 0; h < heads; ++h) all.push_back(kernels::alibi_slope(h, heads));
  return all;
}

/// softmax(q k^T / sqrt(d) - slope |i - j|) v of one head from small operations, where query i
/// stands at i + n_k - n_q.
Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, double slope) {
  const std::size_t n_q = q.shape()[1], n_k = k.shape()[1];
  std::vector<double> bias;
  for (std::size_t i = 0; i < n_q; ++i) {
    for (std::size_t j = 0; j < n_k; ++j) {
      const double position = static_cast<double>(i + n_k) - static_cast<double>(n_q);
      bias.push_back(-slope * std::abs(position - static_cast<double>(j)));
    }
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.shape()[2]));
  const Tensor scores = matmul(q, k, {.transpose_b = true, .scale = scale});
  return matmul(softmax(scores + Tensor::from({1, n_q, n_k}, bias, DType::float64)), v);
}

}  // namespace

TEST_CASE("the slopes of ALiBi are those of the paper, and of its reference for any number") {
  CHECK(slopes(1) == std::vector<double>{std::exp2(-8)});
  CHECK(slopes(8) ==
        std::vector<double>{1. / 2, 1. / 4, 1. / 8, 1. / 16, 1. / 32, 1. / 64, 1. / 128, 1. / 256});
  CHECK(slopes(16)[0] == doctest::Approx(std::exp2(-0.5)).epsilon(1e-15));
  CHECK(slopes(16)[15] == std::exp2(-8));
  // get_slopes(n) of the reference implementation.
  CHECK(slopes(3) == std::vector<double>{std::exp2(-4), std::exp2(-8), std::exp2(-2)});
  CHECK(slopes(6) == std::vector<double>{std::exp2(-2), std::exp2(-4), std::exp2(-6), std::exp2(-8),
                                         std::exp2(-1), std::exp2(-3)});
}

TEST_CASE("with equal scores ALiBi weights keys by e^(-slope distance)") {
  for (const DType dtype : dtypes) {
    const Tensor zeros = Tensor::zeros({1, 3, 2}, dtype);
    const double e = std::exp(-1. / 16), f = std::exp(-1. / 256);  // the slopes of two heads
    const auto row = [](double a, double b, double c) {
      return std::vector{a / (a + b + c), b / (a + b + c), c / (a + b + c)};
    };
    std::vector<double> expected;
    for (const double d : {e, f}) {
      for (const auto& weights : {row(1, d, d * d), row(d, 1, d), row(d * d, d, 1)}) {
        expected.insert(expected.end(), weights.begin(), weights.end());
      }
    }
    check_values(attention_weights(zeros, zeros, {.num_heads = 2, .alibi = true}), expected,
                 tolerance(dtype));
  }
}

TEST_CASE("ALiBi equals its composition, values and gradients, for sequences of any length") {
  const std::size_t lengths[][2] = {{3, 3}, {2, 5}, {150, 150}};
  for (const auto& [n_q, n_k] : lengths) {
    const Tensor q = random_leaf({1, n_q, 4}, 1), k = random_leaf({1, n_k, 4}, 2);
    const Tensor v = random_leaf({1, n_k, 3}, 3);
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
    const auto plain = run([&] { return composed(q, k, v, std::exp2(-8)); });
    const auto fused = run([&] { return scaled_dot_product_attention(q, k, v, {.alibi = true}); });
    REQUIRE(fused.size() == plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CHECK(fused[i] == doctest::Approx(plain[i]).epsilon(1e-11).scale(1.0));
    }
  }
}

TEST_CASE("ALiBi counts distances from the first key of all, under windows in long texts too") {
  constexpr std::size_t n = 150, radius = 20;
  const Tensor x = random_leaf({1, n, 4}, 1), v = random_leaf({1, n, 3}, 2);
  std::vector<double> bias;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t distance = i < j ? j - i : i - j;
      bias.push_back(distance > radius ? -std::numeric_limits<double>::infinity()
                                       : -std::exp2(-8) * static_cast<double>(distance));
    }
  }
  const Tensor scores = matmul(x, x, {.transpose_b = true, .scale = 0.5});
  const Tensor y = matmul(softmax(scores + Tensor::from({1, n, n}, bias, DType::float64)), v);
  const AttentionOptions options{.mask = AttentionMask::window(radius), .alibi = true};
  check_values(scaled_dot_product_attention(x, x, v, options), values_of(y), 1e-11);
}

TEST_CASE("under a causal mask ALiBi is the paper's bias, which grows with the key's position") {
  const Tensor x = random_leaf({1, 5, 4}, 1);
  const auto weights =
      values_of(attention_weights(x, x, {.mask = AttentionMask::causal(), .alibi = true}));
  const auto plain = values_of(attention_weights(x, x, {.mask = AttentionMask::causal()}));
  const auto lifted = [](std::size_t j) {
    return std::exp(std::exp2(-8) * static_cast<double>(j));
  };
  for (std::size_t i = 0; i < 5; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j <= i; ++j) sum += plain[i * 5 + j] * lifted(j);
    for (std::size_t j = 0; j < 5; ++j) {
      const double expected = plain[i * 5 + j] * lifted(j) / sum;
      CHECK(weights[i * 5 + j] == doctest::Approx(expected).epsilon(1e-12));
    }
  }
}

TEST_CASE("the gradients of ALiBi agree with differences under masks, dropout and other scores") {
  const Tensor x = random_leaf({2, 5, 6}, 1), w = random_leaf({3, 2}, 2);
  const AttentionOptions options{.num_heads = 3,
                                 .mask = AttentionMask::padding({5, 2}) & AttentionMask::window(2),
                                 .alibi = true,
                                 .dropout = 0.3,
                                 .random = RandomStream(5)};
  CHECK(gradient_error([&] { return scaled_dot_product_attention(x, x, x, options); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return additive_attention(x, x, x, w, options); }, {x, w}) < 1e-6);
  AttentionOptions unbiased = options;
  unbiased.alibi = false;
  CHECK(values_of(additive_attention_weights(x, x, w, options)) !=
        values_of(additive_attention_weights(x, x, w, unbiased)));
}
