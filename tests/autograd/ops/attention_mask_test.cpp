#include <doctest/doctest.h>

#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/autograd/ops/attend.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a causal mask hides keys behind the query") {
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

TEST_CASE("a causal mask takes fewer queries than keys as the last positions") {
  const Tensor k = random_leaf({1, 3, 2}, 1);
  const Tensor q = random_leaf({1, 2, 2}, 2);
  const auto w = values_of(attention_weights(q, k, {.mask = AttentionMask::causal()}));
  CHECK(w[2] == 0.0);
  CHECK(w[5] > 0.0);
}

TEST_CASE("a window mask hides keys farther away than its radius, on both sides") {
  const Tensor x = random_leaf({1, 5, 2}, 1);
  const auto w = values_of(attention_weights(x, x, {.mask = AttentionMask::window(1)}));
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      CHECK((w[i * 5 + j] > 0) == (i <= j + 1 && j <= i + 1));
    }
  }
}

TEST_CASE("a window mask wider than the sequence hides nothing") {
  const Tensor x = random_leaf({1, 5, 2}, 1);
  for (const std::size_t radius : {std::size_t{10}, ~std::size_t{0} - 1, ~std::size_t{0}}) {
    CHECK(values_of(attention_weights(x, x, {.mask = AttentionMask::window(radius)})) ==
          values_of(attention_weights(x, x)));
  }
}

TEST_CASE("the weights under a window mask times the values are the output, over many tiles too") {
  const Tensor x = random_leaf({1, 150, 2}, 1), v = random_leaf({1, 150, 2}, 2);
  const AttentionMask mask = AttentionMask::window(8);
  const Tensor weights = attention_weights(x, x, {.mask = mask});
  const Tensor y = matmul(reshape(weights, {150, 150}), reshape(v, {150, 2}));
  check_values(attend(x, x, v, mask), values_of(y), 1e-9);
}

TEST_CASE("combined masks: a query may attend to a key if all masks allow it") {
  const AttentionMask mask = AttentionMask::causal() & AttentionMask::padding({2}) &
                             AttentionMask::padding({3}) & AttentionMask::window(1) &
                             AttentionMask::keep(1, 3, 3, {1, 1, 1, 1, 1, 1, 1, 1, 1}) &
                             AttentionMask::keep(1, 3, 3, {1, 1, 1, 0, 1, 1, 1, 1, 1});
  const Tensor x = random_leaf({1, 3, 2}, 1);
  const auto w = values_of(attention_weights(x, x, {.mask = mask}));
  const std::vector<double> expected = {1, 0, 0, 0, 1, 0, 0, 1, 0};
  CHECK(w == expected);
}

TEST_CASE("a query that may attend to no key gives 0 with zero gradient and affects no other") {
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

namespace {

/// Row b of the first axis of x, alone.
std::vector<double> part(const std::vector<double>& x, std::size_t parts, std::size_t b) {
  const auto n = static_cast<std::ptrdiff_t>(x.size() / parts);
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(b) * n;
  return {begin, begin + n};
}

AttentionResults part(const AttentionResults& all, std::size_t parts, std::size_t b) {
  return {part(all.y, parts, b), part(all.dq, parts, b), part(all.dk, parts, b),
          part(all.dv, parts, b)};
}

}  // namespace

TEST_CASE("a fully masked sentence gives zeros and changes no other sentence of the batch") {
  constexpr std::size_t batch = 3, n_q = 3, n_k = 70;
  std::vector<std::uint8_t> keep(batch * n_q * n_k, 1);
  std::fill_n(keep.begin() + n_q * n_k, n_q * n_k, std::uint8_t{0});
  const AttentionMask masks[] = {AttentionMask::padding({70, 0, 70}),
                                 AttentionMask::padding({70, 0, 70}) & AttentionMask::causal(),
                                 AttentionMask::keep(batch, n_q, n_k, keep)};
  const AttentionMask without[] = {AttentionMask(), AttentionMask::causal(), AttentionMask()};
  for (const DType dtype : dtypes) {
    const Tensor q = random_leaf({batch, n_q, 10}, 1).copied(dtype);
    const Tensor k = random_leaf({batch, n_k, 10}, 2).copied(dtype);
    const Tensor v = random_leaf({batch, n_k, 6}, 3).copied(dtype);
    for (std::size_t m = 0; m < std::size(masks); ++m) {
      const auto masked = attention_results(q, k, v, {.num_heads = 2, .mask = masks[m]});
      const auto plain = attention_results(q, k, v, {.num_heads = 2, .mask = without[m]});
      CHECK(part(masked, batch, 0) == part(plain, batch, 0));
      CHECK(part(masked, batch, 2) == part(plain, batch, 2));
      const AttentionResults zeros = {std::vector<double>(n_q * 6), std::vector<double>(n_q * 10),
                                      std::vector<double>(n_k * 10), std::vector<double>(n_k * 6)};
      CHECK(part(masked, batch, 1) == zeros);
    }
  }
}

TEST_CASE("keys that no query attends to keep the gradients of their other uses") {
  const AttentionMask mask = AttentionMask::padding({2});
  for (const std::size_t n_q : {3, 70}) {  // one tile, and two
    const Tensor q = random_leaf({1, n_q, 2}, 1), k = random_leaf({1, 4, 2}, 2);
    const Tensor v = random_leaf({1, 4, 2}, 3);
    Tape tape;
    const Tensor attended = attend(q, k, v, mask);
    // The sums come last, so their gradients are there first.
    tape.backward(sum(attended) + (sum(k) + sum(v)));
    for (const Tensor& x : {k, v}) {
      const std::vector<double> gradient = values_of(x.gradient());
      for (std::size_t i = 4; i < 8; ++i) CHECK(gradient[i] == 1.0);
      for (std::size_t i = 0; i < 4; ++i) CHECK(gradient[i] != 1.0);
    }
  }
}

TEST_CASE("queries before the first key attend to nothing under a causal mask or a window") {
  const Tensor q = random_leaf({1, 4, 2}, 1);
  const Tensor k = random_leaf({1, 2, 2}, 2);
  const Tensor v = random_leaf({1, 2, 2}, 3);
  for (const AttentionMask& mask : {AttentionMask::causal(), AttentionMask::window(0)}) {
    const AttentionResults results = attention_results(q, k, v, {.mask = mask});
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(results.y[i] == 0.0);
      CHECK(results.dq[i] == 0.0);
    }
    CHECK(results.y[4] == v.values<double>()[0]);  // the third query sees the first key alone
    CHECK(gradient_error([&] { return attend(q, k, v, mask); }, {q, k, v}) < 1e-6);
  }
}

TEST_CASE("the weights of a fully masked query are all 0") {
  const Tensor q = random_leaf({2, 2, 4}, 1);
  const Tensor k = random_leaf({2, 3, 4}, 2);
  const AttentionOptions options{.num_heads = 2, .mask = AttentionMask::padding({0, 3})};
  const auto weights = values_of(attention_weights(q, k, options));
  CHECK(part(weights, 2, 0) == std::vector<double>(12, 0.0));
  double sum = 0.0;
  for (const double weight : part(weights, 2, 1)) sum += weight;
  CHECK(sum == doctest::Approx(4.0));
}

TEST_CASE("attention accepts 0 sentences, 0 queries and 0 keys") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float64); };
  const auto results = [&](const Shape& q, const Shape& k) {
    return attention_results(zeros(q), zeros(k), Tensor::full(k, 1.0, DType::float64), {});
  };
  CHECK(results({0, 2, 4}, {0, 3, 4}) == AttentionResults{});
  CHECK(results({2, 0, 4}, {2, 3, 4}).dk == std::vector<double>(24, 0.0));
  CHECK(results({2, 0, 4}, {2, 3, 4}).dv == std::vector<double>(24, 0.0));
  CHECK(results({2, 3, 4}, {2, 0, 4}).y == std::vector<double>(24, 0.0));
  CHECK(results({2, 3, 4}, {2, 0, 4}).dq == std::vector<double>(24, 0.0));
  CHECK(attention_weights(zeros({2, 3, 4}), zeros({2, 0, 4})).shape() == Shape{2, 1, 3, 0});
}
