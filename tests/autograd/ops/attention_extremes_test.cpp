#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/kernels/matmul.h"
#include "autograd/ops/attention.h"
#include "autograd/tape.h"
#include "tests/autograd/ops/attend.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

const double undefined = std::numeric_limits<double>::quiet_NaN();

/// The gradients of q, k and v under a mask for this dL/dy.
std::vector<std::vector<double>> compute_gradients(const Tensor& q, const Tensor& k,
                                                   const Tensor& v, const AttentionMask& mask,
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

TEST_CASE("padded keys have no influence at all, not even NaN") {
  const Tensor q = random_leaf({1, 3, 2}, 1);
  const Tensor k2 = random_leaf({1, 2, 2}, 2);
  auto padded = values_of(k2);
  padded.insert(padded.end(), {undefined, undefined, undefined, undefined});
  const Tensor k4 = Tensor::from({1, 4, 2}, padded, DType::float64);
  const Tensor y = attend(q, k4, k4, AttentionMask::padding({2}));
  const std::vector<double> expected = values_of(scaled_dot_product_attention(q, k2, k2));
  check_values(y, expected);
  if (matmul_in_use() == Matmul::tapestry) CHECK(values_of(y) == expected);
}

TEST_CASE("a NaN value behind a causal mask changes only queries that may attend to it") {
  const Tensor q = random_leaf({1, 3, 2}, 1);
  const Tensor v = Tensor::from({1, 3, 2}, {1, 2, 3, 4, undefined, undefined}, DType::float64);
  const auto y = values_of(attend(q, q, v, AttentionMask::causal()));
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::isfinite(y[i]));
  CHECK(std::isnan(y[4]));
}

TEST_CASE("a NaN value gives finite gradients to queries that may not attend to it") {
  const Tensor q = random_leaf({1, 3, 2}, 1);
  const Tensor k = random_leaf({1, 3, 2}, 2);
  const Tensor v = leaf_ending_in_nan(3, 3);
  const std::vector<double> upstream = {1, 2, 3, 4, 0, 0};
  const auto causal = compute_gradients(q, k, v, AttentionMask::causal(), upstream);
  CHECK(finite(causal[0], 0, 4));
  for (Tensor leaf : {q, k, v}) leaf.clear_gradient();
  const AttentionMask nobody_sees_it =
      AttentionMask::causal() & AttentionMask::keep(1, 3, 3, {1, 1, 1, 1, 1, 1, 1, 1, 0});
  for (const auto& gradient : compute_gradients(q, k, v, nobody_sees_it, upstream)) {
    CHECK(finite(gradient, 0, 6));
  }
}

TEST_CASE("NaN in a key behind a keep-mask leaves all gradients finite") {
  const Tensor q = random_leaf({1, 2, 2}, 1);
  const Tensor k = leaf_ending_in_nan(3, 2);
  const Tensor v = random_leaf({1, 3, 2}, 3);
  const AttentionMask mask = AttentionMask::keep(1, 2, 3, {1, 1, 0, 1, 1, 0});
  for (const auto& gradient : compute_gradients(q, k, v, mask, {1, 2, 3, 4})) {
    CHECK(finite(gradient, 0, gradient.size()));
  }
}

TEST_CASE("NaN in a fully masked query leaves the gradients of keys and values finite") {
  const Tensor q = leaf_ending_in_nan(2, 1);
  const Tensor k = random_leaf({1, 3, 2}, 2);
  const Tensor v = random_leaf({1, 3, 2}, 3);
  const AttentionMask mask = AttentionMask::keep(1, 2, 3, {1, 1, 1, 0, 0, 0});
  const auto gradients = compute_gradients(q, k, v, mask, {1, 2, 3, 4});
  for (const auto& gradient : gradients) CHECK(finite(gradient, 0, gradient.size()));
  CHECK(gradients[0][2] == 0.0);
  CHECK(gradients[0][3] == 0.0);
}

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// x (1, rows, d) with its last row filled with one value.
Tensor with_last_row(const Tensor& x, double value) {
  const std::size_t d = x.shape().back();
  auto values = values_of(x);
  std::fill(values.end() - static_cast<std::ptrdiff_t>(d), values.end(), value);
  return Tensor::from(x.shape(), values, x.dtype());
}

bool all_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  return std::ranges::equal(a, b, [=](double x, double y) {
    return std::abs(x - y) <= tolerance * std::max(1.0, std::abs(y));
  });
}

bool all_close(const AttentionResults& a, const AttentionResults& b, double tolerance) {
  return all_close(a.y, b.y, tolerance) && all_close(a.dq, b.dq, tolerance) &&
         all_close(a.dk, b.dk, tolerance) && all_close(a.dv, b.dv, tolerance);
}

/// A row (1, n, 1).
Tensor column(std::initializer_list<double> values, DType dtype) {
  return Tensor::from({1, values.size(), 1}, values, dtype);
}

}  // namespace

TEST_CASE("NaN and infinity at masked keys change no value and no gradient, with dropout too") {
  struct Size {
    std::size_t queries, keys, width = 4;
  };
  // More than one tile of queries; more keys than a product takes at once; more than a vector.
  for (const Size& size : {Size{70, 67}, Size{3, 530}, Size{5, 20, 44}}) {
    const std::size_t queries = size.queries, keys = size.keys;
    CAPTURE(keys);
    std::vector<std::uint8_t> keep(queries * keys, 1);
    for (std::size_t i = 0; i < queries; ++i) keep[i * keys + keys - 1] = 0;
    const AttentionMask masks[] = {AttentionMask::padding({static_cast<std::int32_t>(keys) - 1}),
                                   AttentionMask::keep(1, queries, keys, keep)};
    for (const DType dtype : dtypes) {
      const Tensor q = random_leaf({1, queries, size.width}, 1).copied(dtype);
      const Tensor k = with_last_row(random_leaf({1, keys, size.width}, 2).copied(dtype), 0.0);
      const Tensor v = with_last_row(random_leaf({1, keys, size.width}, 3).copied(dtype), 0.0);
      for (const AttentionMask& mask : masks) {
        for (const double rate : {0.0, 0.5}) {
          const AttentionOptions options{
              .num_heads = 2, .mask = mask, .dropout = rate, .random = RandomStream(5)};
          const AttentionResults expected = attention_results(q, k, v, options);
          for (const double hidden : {undefined, inf, -inf}) {
            CAPTURE(hidden);
            const Tensor bad_k = with_last_row(k, hidden);
            const Tensor bad_v = with_last_row(v, hidden);
            CHECK(all_close(attention_results(q, bad_k, bad_v, options), expected, 1e-5));
          }
        }
      }
    }
  }
}

TEST_CASE("NaN and infinity in the masked last row of any operand have no effect, for any size") {
  struct Size {
    std::size_t n_q, n_k, d_k, d_v;
  };
  // Two heads; several pieces of work; each extent and each width the larger one.
  for (const Size& size : {Size{18, 18, 300, 300}, Size{5, 2, 2, 6}, Size{2, 5, 6, 2},
                           Size{5, 2, 6, 2}, Size{2, 5, 2, 6}}) {
    const std::size_t n_q = size.n_q, n_k = size.n_k;
    CAPTURE(n_q);
    CAPTURE(size.d_k);
    std::vector<std::uint8_t> keep(2 * n_q * n_k, 1);
    for (std::size_t row = 0; row < 2 * n_q; ++row) keep[(row + 1) * n_k - 1] = 0;
    std::fill_n(keep.end() - static_cast<std::ptrdiff_t>(n_k), n_k, std::uint8_t{0});
    const AttentionOptions options{.num_heads = 2, .mask = AttentionMask::keep(2, n_q, n_k, keep)};
    const Tensor sound[] = {
        random_leaf({2, n_q, 2 * size.d_k}, 1), random_leaf({2, n_k, 2 * size.d_k}, 2),
        random_leaf({2, n_k, 2 * size.d_v}, 3), random_leaf({2, n_q, 2 * size.d_v}, 4)};
    for (std::size_t which = 0; which < std::size(sound); ++which) {
      for (const double hidden : {undefined, inf, -inf}) {
        CAPTURE(which);
        CAPTURE(hidden);
        std::vector<Tensor> leaves;
        for (std::size_t i = 0; i < std::size(sound); ++i) {
          const Tensor x = i == which ? with_last_row(sound[i], hidden) : sound[i];
          leaves.push_back(x.copied(DType::float64).require_gradient());
        }
        Tape tape;
        const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], options);
        CHECK(finite(values_of(y), 0, y.size()));
        tape.backward(y, leaves[3].copied(DType::float64));
        for (std::size_t i = 0; i < 3; ++i) {
          const auto gradient = values_of(leaves[i].gradient());
          CHECK(finite(gradient, 0, gradient.size()));
        }
      }
    }
  }
}

TEST_CASE("attention with scores of +-1e4 has weights 0, 1 and 1/2, and finite gradients") {
  for (const DType dtype : dtypes) {
    const Tensor q = column({100, -100}, dtype);
    const Tensor k = column({100, -100, 100}, dtype);
    const Tensor v = column({1, 2, 5}, dtype);
    check_values(attention_weights(q, k), {0.5, 0, 0.5, 0, 1, 0});
    const AttentionResults results = attention_results(q, k, v, {});
    CHECK(results.y == std::vector<double>{3, 2});
    for (const auto& gradient : {results.dq, results.dk, results.dv}) {
      CHECK(finite(gradient, 0, gradient.size()));
    }
    CHECK(results.dk[1] == 0.0);  // no weight of either query depends on it any more
  }
}

TEST_CASE("a key whose score is -inf has the same effect as a masked key") {
  for (const DType dtype : dtypes) {
    const Tensor q = column({1, 2}, dtype);
    const Tensor k = column({0.5, 1.5, -inf}, dtype);
    const Tensor v = column({1, 2, 5}, dtype);
    const AttentionResults masked = attention_results(q, column({0.5, 1.5, 0}, dtype), v,
                                                      {.mask = AttentionMask::padding({2})});
    CHECK(all_close(attention_results(q, k, v, {}), masked, 1e-6));
  }
}

TEST_CASE("a query whose scores are all -inf gives 0 with zero gradient and affects no other") {
  for (const DType dtype : dtypes) {
    const Tensor k = column({-1, -2}, dtype);
    const Tensor v = column({3, 4}, dtype);
    const AttentionResults results = attention_results(column({inf, 1}, dtype), k, v, {});
    CHECK(results.y[0] == 0.0);
    CHECK(results.dq[0] == 0.0);
    const AttentionResults masked = attention_results(
        column({0, 1}, dtype), k, v, {.mask = AttentionMask::keep(1, 2, 2, {0, 0, 1, 1})});
    CHECK(all_close(results, masked, 1e-6));
  }
}

TEST_CASE("a score of +inf makes exactly the queries that may attend to it NaN") {
  for (const DType dtype : dtypes) {
    const Tensor q = column({1, 1, 1}, dtype);
    const Tensor k = column({1, 2, inf}, dtype);
    const auto y = values_of(attend(q, k, q, AttentionMask::causal()));
    CHECK(y[0] == 1.0);
    CHECK(y[1] == doctest::Approx(1.0));
    CHECK(std::isnan(y[2]));
  }
}

TEST_CASE(
    "float32 gradients of attention stay close to float64 where scores are in the thousands") {
  // All keys share a large coordinate: each row of scores is far from 0 and its weights are even.
  const auto leaf = [](std::uint64_t seed, double shared) {
    Tensor x = random_leaf({1, 6, 4}, seed);
    for (std::size_t row = 0; row < 6; ++row) x.mutable_values<double>()[row * 4] = shared;
    return x.copied(DType::float32);
  };
  const Tensor q = leaf(1, 80.0), k = leaf(2, 100.0), v = random_leaf({1, 6, 4}, 3);
  const auto single = attention_results(q, k, v.copied(DType::float32), {});
  const auto twice = attention_results(q.copied(DType::float64), k.copied(DType::float64),
                                       v.copied(DType::float32).copied(DType::float64), {});
  const auto largest = [](const std::vector<double>& x) {
    return std::abs(*std::ranges::max_element(x, {}, [](double y) { return std::abs(y); }));
  };
  for (std::size_t i = 0; i < single.dq.size(); ++i) {
    CHECK(std::abs(single.dq[i] - twice.dq[i]) < 2e-3 * largest(twice.dq));
    CHECK(std::abs(single.dk[i] - twice.dk[i]) < 2e-3 * largest(twice.dk));
  }
}
