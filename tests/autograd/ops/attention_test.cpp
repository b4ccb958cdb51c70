#include "autograd/ops/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/softmax.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

const double undefined = std::numeric_limits<double>::quiet_NaN();

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
              std::size_t heads = 1) {
  return scaled_dot_product_attention(q, k, v, {.num_heads = heads, .mask = mask});
}

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

/// The gradients of q, k and v under a mask for this dL/dy.
std::vector<std::vector<double>> gradients_of(const Tensor& q, const Tensor& k, const Tensor& v,
                                              const AttentionMask& mask,
                                              const std::vector<double>& dy) {
  Tape tape;
  const Tensor y = attend(q, k, v, mask);
  tape.backward(y, Tensor::from(y.shape(), dy, DType::float64));
  return {values_of(q.gradient()), values_of(k.gradient()), values_of(v.gradient())};
}

bool finite(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  return std::all_of(values.begin() + static_cast<std::ptrdiff_t>(begin),
                     values.begin() + static_cast<std::ptrdiff_t>(end),
                     [](double x) { return std::isfinite(x); });
}

/// A random leaf (1, rows, 2) whose last row is NaN.
Tensor leaf_ending_in_nan(std::size_t rows, std::uint64_t seed) {
  auto values = values_of(random_leaf({1, rows, 2}, seed));
  std::fill(values.end() - 2, values.end(), undefined);
  return Tensor::from({1, rows, 2}, values, DType::float64).require_gradient();
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

TEST_CASE("heads lie side by side and do not mix") {
  const Tensor q = random_leaf({2, 3, 6}, 1);
  const Tensor k = random_leaf({2, 4, 6}, 2);
  const Tensor v = random_leaf({2, 4, 6}, 3);
  const Tensor y = scaled_dot_product_attention(q, k, v, {.num_heads = 3});
  for (std::size_t h = 0; h < 3; ++h) {
    check_values(head_of(y, h, 2), values_of(scaled_dot_product_attention(
                                       head_of(q, h, 2), head_of(k, h, 2), head_of(v, h, 2))));
  }
}

TEST_CASE("a causal mask hides what comes after the query") {
  const Tensor x = random_leaf({1, 4, 2}, 1);
  const auto w = values_of(attention_weights(x, x, {.mask = AttentionMask::causal()}));
  for (std::size_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      if (j > i) CHECK(w[i * 4 + j] == 0.0);
      if (j <= i) CHECK(w[i * 4 + j] > 0.0);
      sum += w[i * 4 + j];
    }
    CHECK(sum == doctest::Approx(1.0));
  }
}

TEST_CASE("fewer queries than keys are the last positions of a causal mask") {
  const Tensor k = random_leaf({1, 3, 2}, 1);
  const Tensor q = random_leaf({1, 2, 2}, 2);
  const auto w = values_of(attention_weights(q, k, {.mask = AttentionMask::causal()}));
  CHECK(w[2] == 0.0);
  CHECK(w[5] > 0.0);
}

TEST_CASE("a window hides what is further away than its radius, on both sides") {
  const Tensor x = random_leaf({1, 5, 2}, 1);
  const auto w = values_of(attention_weights(x, x, {.mask = AttentionMask::window(1)}));
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      CHECK((w[i * 5 + j] > 0) == (i <= j + 1 && j <= i + 1));
    }
  }
}

TEST_CASE("padded keys have no influence at all, not even NaN") {
  const Tensor q = random_leaf({1, 3, 2}, 1);
  const Tensor k2 = random_leaf({1, 2, 2}, 2);
  auto padded = values_of(k2);
  padded.insert(padded.end(), {undefined, undefined, undefined, undefined});
  const Tensor k4 = Tensor::from({1, 4, 2}, padded, DType::float64);
  CHECK(values_of(attend(q, k4, k4, AttentionMask::padding({2}))) ==
        values_of(scaled_dot_product_attention(q, k2, k2)));
}

TEST_CASE("NaN in a value behind a causal mask reaches only those who may see it") {
  const Tensor q = random_leaf({1, 3, 2}, 1);
  const Tensor v = Tensor::from({1, 3, 2}, {1, 2, 3, 4, undefined, undefined}, DType::float64);
  const auto y = values_of(attend(q, q, v, AttentionMask::causal()));
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::isfinite(y[i]));
  CHECK(std::isnan(y[4]));
}

TEST_CASE("NaN in a value gives finite gradients to those who may not see it") {
  const Tensor q = random_leaf({1, 3, 2}, 1);
  const Tensor k = random_leaf({1, 3, 2}, 2);
  const Tensor v = leaf_ending_in_nan(3, 3);
  const std::vector<double> upstream = {1, 2, 3, 4, 0, 0};
  const auto causal = gradients_of(q, k, v, AttentionMask::causal(), upstream);
  CHECK(finite(causal[0], 0, 4));
  for (Tensor leaf : {q, k, v}) leaf.clear_gradient();
  const AttentionMask nobody_sees_it =
      AttentionMask::causal() & AttentionMask::keep(1, 3, 3, {1, 1, 1, 1, 1, 1, 1, 1, 0});
  for (const auto& gradient : gradients_of(q, k, v, nobody_sees_it, upstream)) {
    CHECK(finite(gradient, 0, 6));
  }
}

TEST_CASE("NaN in a key behind a keep-mask leaves all gradients finite") {
  const Tensor q = random_leaf({1, 2, 2}, 1);
  const Tensor k = leaf_ending_in_nan(3, 2);
  const Tensor v = random_leaf({1, 3, 2}, 3);
  const AttentionMask mask = AttentionMask::keep(1, 2, 3, {1, 1, 0, 1, 1, 0});
  for (const auto& gradient : gradients_of(q, k, v, mask, {1, 2, 3, 4})) {
    CHECK(finite(gradient, 0, gradient.size()));
  }
}

TEST_CASE("NaN in a query that may see nothing leaves the gradients of keys and values finite") {
  const Tensor q = leaf_ending_in_nan(2, 1);
  const Tensor k = random_leaf({1, 3, 2}, 2);
  const Tensor v = random_leaf({1, 3, 2}, 3);
  const AttentionMask mask = AttentionMask::keep(1, 2, 3, {1, 1, 1, 0, 0, 0});
  const auto gradients = gradients_of(q, k, v, mask, {1, 2, 3, 4});
  for (const auto& gradient : gradients) CHECK(finite(gradient, 0, gradient.size()));
  CHECK(gradients[0][2] == 0.0);
  CHECK(gradients[0][3] == 0.0);
}

TEST_CASE("a query with nothing to attend to gives 0 with zero gradient, the others go on") {
  const Tensor q = random_leaf({2, 2, 2}, 1);
  const Tensor k = random_leaf({2, 3, 2}, 2);
  const Tensor v = random_leaf({2, 3, 2}, 3);
  const AttentionMask mask = AttentionMask::padding({0, 3});
  const auto y = values_of(attend(q, k, v, mask));
  for (std::size_t i = 0; i < 4; ++i) CHECK(y[i] == 0.0);
  for (std::size_t i = 4; i < 8; ++i) CHECK(y[i] != 0.0);
  CHECK(gradient_error([&] { return attend(q, k, v, mask); }, {q, k, v}) < 1e-6);
}

TEST_CASE("a keep-mask row of zeros gives 0 with zero gradient") {
  const Tensor q = random_leaf({1, 2, 2}, 1);
  const Tensor k = random_leaf({1, 3, 2}, 2);
  const AttentionMask mask = AttentionMask::keep(1, 2, 3, {0, 0, 0, 1, 0, 1});
  const auto w = values_of(attention_weights(q, k, {.mask = mask}));
  for (const std::size_t masked : {0, 1, 2, 4}) CHECK(w[masked] == 0.0);
  CHECK(w[3] + w[5] == doctest::Approx(1.0));
  CHECK(gradient_error([&] { return attend(q, k, k, mask); }, {q, k}) < 1e-6);
}

TEST_CASE("masks combine: a key must pass all of them") {
  const AttentionMask mask = AttentionMask::causal() & AttentionMask::padding({2}) &
                             AttentionMask::padding({3}) & AttentionMask::window(1) &
                             AttentionMask::keep(1, 3, 3, {1, 1, 1, 1, 1, 1, 1, 1, 1}) &
                             AttentionMask::keep(1, 3, 3, {1, 1, 1, 0, 1, 1, 1, 1, 1});
  const Tensor x = random_leaf({1, 3, 2}, 1);
  const auto w = values_of(attention_weights(x, x, {.mask = mask}));
  const std::vector<double> expected = {1, 0, 0, 0, 1, 0, 0, 1, 0};
  CHECK(w == expected);
}

TEST_CASE("the gradients of attention agree with differences under every kind of mask") {
  const AttentionMask masks[] = {AttentionMask(), AttentionMask::causal(),
                                 AttentionMask::padding({2, 5}), AttentionMask::window(1),
                                 AttentionMask::causal() & AttentionMask::padding({4, 2})};
  for (const AttentionMask& mask : masks) {
    const Tensor q = random_leaf({2, 5, 4}, 1);
    const Tensor k = random_leaf({2, 5, 4}, 2);
    const Tensor v = random_leaf({2, 5, 6}, 3);
    CHECK(gradient_error([&] { return attend(q, k, v, mask, 2); }, {q, k, v}) < 1e-6);
  }
}

TEST_CASE("the gradients of attention agree with differences with dropout of the weights") {
  const Tensor q = random_leaf({2, 3, 4}, 1);
  const Tensor k = random_leaf({2, 4, 4}, 2);
  const Tensor v = random_leaf({2, 4, 4}, 3);
  const AttentionOptions options{.num_heads = 2, .dropout = 0.4, .random = RandomStream(5)};
  const auto run = [&] { return scaled_dot_product_attention(q, k, v, options); };
  CHECK(values_of(run()) == values_of(run()));
  CHECK(values_of(run()) != values_of(scaled_dot_product_attention(q, k, v, {.num_heads = 2})));
  CHECK(gradient_error(run, {q, k, v}) < 1e-6);
}

TEST_CASE("no two queries, heads or sentences draw the same dropout of their weights") {
  constexpr std::size_t batch = 2, n_q = 130, n_k = 32, heads = 2;
  const Tensor q = Tensor::zeros({batch, n_q, heads}, DType::float32);
  const Tensor k = Tensor::zeros({batch, n_k, heads}, DType::float32);
  // Every head's values are the unit matrix: its output is its dropped weights.
  std::vector<double> units(batch * n_k * heads * n_k, 0.0);
  for (std::size_t i = 0; i < batch * n_k * heads; ++i) units[i * n_k + i / heads % n_k] = 1.0;
  const Tensor v = Tensor::from({batch, n_k, heads * n_k}, units, DType::float32);
  const auto y = values_of(scaled_dot_product_attention(
      q, k, v, {.num_heads = heads, .dropout = 0.5, .random = RandomStream(1)}));
  std::set<std::vector<double>> rows;
  for (auto row = y.begin(); row != y.end(); row += n_k) rows.emplace(row, row + n_k);
  CHECK(rows.size() == batch * n_q * heads);
}

TEST_CASE("queries, keys and values may be one tensor, and only some may want a gradient") {
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const Tensor fixed = random_leaf({2, 3, 4}, 2).copied(DType::float64);
  CHECK(gradient_error([&] { return attend(x, x, x, AttentionMask::causal(), 2); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return attend(x, fixed, fixed, {}, 2); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return attend(fixed, x, fixed, {}, 2); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return attend(fixed, fixed, x, {}, 2); }, {x}) < 1e-6);
}

TEST_CASE("sequences longer than a tile give the values and gradients of the composed form") {
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

TEST_CASE("attention refuses what does not fit and says what would") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  const auto call = [&](const Shape& q, const Shape& k, const Shape& v,
                        const AttentionOptions& options) {
    return scaled_dot_product_attention(zeros(q), zeros(k), zeros(v), options);
  };
  CHECK_THROWS_WITH_AS(call({2, 3, 5}, {2, 3, 5}, {2, 3, 5}, {.num_heads = 2}),
                       "scaled_dot_product_attention: q has shape (2, 3, 5), expected (batch, "
                       "length, 2 heads * width)",
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
  CHECK_THROWS_AS(AttentionMask::padding({-1}), ValueError);
  CHECK_THROWS_AS(AttentionMask::keep(1, 2, 2, {1}), ShapeError);
}
