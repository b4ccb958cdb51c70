#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "autograd/ops/attention.h"
#include "autograd/tape.h"
#include "tests/autograd/ops/attend.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

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

TEST_CASE("attention dropout: backward recomputes the dropped weights of forward if not stored") {
  const Tensor q = random_leaf({1, 3, 2}, 1);
  const Tensor k = random_leaf({1, 90, 2}, 2);
  const Tensor v = random_leaf({1, 90, 2}, 3);
  const AttentionOptions options{.num_heads = 1, .dropout = 0.4, .random = RandomStream(5)};
  CHECK(gradient_error([&] { return scaled_dot_product_attention(q, k, v, options); }, {q, k, v}) <
        1e-6);
}

TEST_CASE("attention dropout: backward drops the stored weights that forward dropped") {
  const Tensor q = random_leaf({2, 70, 4}, 1);
  const Tensor k = random_leaf({2, 20, 4}, 2);
  const Tensor v = random_leaf({2, 20, 4}, 3);
  const AttentionOptions options{.num_heads = 2,
                                 .mask = AttentionMask::padding({20, 9}),
                                 .dropout = 0.4,
                                 .random = RandomStream(5)};
  CHECK(gradient_error([&] { return scaled_dot_product_attention(q, k, v, options); }, {q, k, v}) <
        1e-6);
}

TEST_CASE("attention dropout keeps the mean at rates near 1, and backward drops what forward did") {
  // All weights are 1 / n and all values 1: an output is the sum of its kept weights.
  constexpr std::size_t batch = 4, n = 1024, heads = 4;
  constexpr auto count = static_cast<double>(batch * heads * n * n);
  const Tensor q = Tensor::zeros({batch, n, heads}, DType::float32);
  const auto scales = [](const Tensor& x) {  // the sum of those of the kept weights
    const std::vector<double> values = values_of(x);
    return std::accumulate(values.begin(), values.end(), 0.0) * static_cast<double>(n);
  };
  for (const double rate : {0.999, 0.99999}) {
    CAPTURE(rate);
    const Tensor v = Tensor::full({batch, n, heads}, 1.0, DType::float32).require_gradient();
    Tape tape;
    const Tensor y = scaled_dot_product_attention(
        q, q, v, {.num_heads = heads, .dropout = rate, .random = RandomStream(5)});
    tape.backward(y, Tensor::full(y.shape(), 1.0, DType::float32));
    const double sigma = std::sqrt(count * rate * (1.0 - rate)) / (1.0 - rate);
    CHECK(std::abs(scales(y) - count) < 4.0 * sigma);
    CHECK(scales(v.gradient()) == doctest::Approx(scales(y)).epsilon(1e-4));
  }
}

TEST_CASE("attention dropout draws differently for each query, head and sentence") {
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

TEST_CASE("attention dropout draws differently for sentences of other lengths") {
  constexpr std::size_t n = 64, short_length = 16;
  const Tensor zeros = Tensor::zeros({2, n, 1}, DType::float32);
  std::vector<double> units(2 * n * n, 0.0);
  for (std::size_t i = 0; i < 2 * n; ++i) units[i * n + i % n] = 1.0;
  const auto y = values_of(
      scaled_dot_product_attention(zeros, zeros, Tensor::from({2, n, n}, units, DType::float32),
                                   {.num_heads = 1,
                                    .mask = AttentionMask::padding({n, short_length}),
                                    .dropout = 0.5,
                                    .random = RandomStream(1)}));
  // Which weights are dropped, in the order in which they are drawn.
  std::string of_long, of_short;
  for (std::size_t query = 0; query < n; ++query) {
    for (std::size_t key = 0; key < n; ++key) {
      of_long += y[query * n + key] == 0.0 ? '-' : '+';
      if (key < short_length) of_short += y[(n + query) * n + key] == 0.0 ? '-' : '+';
    }
  }
  CHECK(of_long.find(of_short.substr(0, 4 * short_length)) == std::string::npos);
}

TEST_CASE("attention at dropout 0 has the bits of attention without dropout") {
  for (const DType dtype : dtypes) {
    const Tensor x = random_leaf({2, 5, 4}, 1).copied(dtype);
    CHECK(attention_results(x, x, x, {.num_heads = 2, .dropout = 0.0, .random = RandomStream(5)}) ==
          attention_results(x, x, x, {.num_heads = 2}));
    CHECK(attention_results(x, x, x, {.num_heads = 2, .dropout = 0.7, .random = RandomStream()}) ==
          attention_results(x, x, x, {.num_heads = 2}));
  }
}

TEST_CASE("attention at dropout 1 gives zeros and zero gradients") {
  const std::vector<double> zeros(40, 0.0);
  for (const DType dtype : dtypes) {
    const Tensor x = random_leaf({2, 5, 4}, 1).copied(dtype);
    const AttentionResults results =
        attention_results(x, x, x, {.num_heads = 2, .dropout = 1.0, .random = RandomStream(5)});
    CHECK(results == AttentionResults{zeros, zeros, zeros, zeros});
  }
}

TEST_CASE("attention dropout: a fully masked query gives 0 with zero gradient") {
  const Tensor q = random_leaf({2, 3, 4}, 1);
  const Tensor k = random_leaf({2, 4, 4}, 2);
  const AttentionOptions options{.num_heads = 2,
                                 .mask = AttentionMask::padding({0, 4}),
                                 .dropout = 0.4,
                                 .random = RandomStream(5)};
  const AttentionResults results = attention_results(q, k, k, options);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(results.y[i] == 0.0);
    CHECK(results.dq[i] == 0.0);
  }
  CHECK(gradient_error([&] { return scaled_dot_product_attention(q, k, k, options); }, {q, k}) <
        1e-6);
}
