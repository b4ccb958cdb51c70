// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "autograd/error.h"
#include "autograd/kernels/matmul.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "tests/autograd/ops/attend.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

/// Tests masks and non-finite values. attention_test.cpp also compares masks with scores of -inf.
namespace {

/// Part b of x, which is divided into `parts` equal parts.
std::vector<double> part(const std::vector<double>& x, std::size_t parts, std::size_t b) {
  const auto n = static_cast<std::ptrdiff_t>(x.size() / parts);
  const auto begin = x.begin() + static_cast<std::ptrdiff_t>(b) * n;
  return {begin, begin + n};
}
Results part(const Results& all, std::size_t parts, std::size_t b) {
  Results own{part(all.y, parts, b), {}};
  for (const auto& gradient : all.gradients) own.gradients.push_back(part(gradient, parts, b));
  return own;
}

/// x with its last row filled with one value.
Tensor with_last_row(const Tensor& x, double value) {
  auto values = values_of(x);
  std::fill(values.end() - static_cast<std::ptrdiff_t>(x.shape().back()), values.end(), value);
  return Tensor::from(x.shape(), values, x.dtype());
}

bool all_finite(const Results& results) {
  const auto finite = [](const std::vector<double>& values) {
    return std::ranges::all_of(values, [](double x) { return std::isfinite(x); });
  };
  return finite(results.y) && std::ranges::all_of(results.gradients, finite);
}

/// A batch of one sentence, (1, n, 1).
Tensor column(std::initializer_list<double> values, DType dtype) {
  return Tensor::from({1, values.size(), 1}, values, dtype);
}

/// A mask (batch, n_q, n_k) that hides the last key.
AttentionMask without_last_key(std::size_t batch, std::size_t n_q, std::size_t n_k) {
  std::vector<std::uint8_t> keep(batch * n_q * n_k, 1);
  for (std::size_t row = 0; row < batch * n_q; ++row) keep[(row + 1) * n_k - 1] = 0;
  return AttentionMask::keep(batch, n_q, n_k, keep);
}

}  // namespace

TEST_CASE("masks give masked keys weight 0, and the other weights of a query add up to 1") {
  struct Case {
    std::string name;
    std::size_t n_q, n_k;
    AttentionMask mask;
    bool (*allows)(std::size_t, std::size_t);
  };
  using I = std::size_t;
  const AttentionMask combined = AttentionMask::causal() & AttentionMask::padding({2}) &
                                 AttentionMask::padding({3}) & AttentionMask::window(1) &
                                 AttentionMask::keep(1, 3, 3, {1, 1, 1, 1, 1, 1, 1, 1, 1}) &
                                 AttentionMask::keep(1, 3, 3, {1, 1, 1, 0, 1, 1, 1, 1, 1});
  const Case cases[] = {
      {"causal", 4, 4, AttentionMask::causal(), [](I i, I j) { return j <= i; }},
      {"causal, fewer queries", 2, 3, AttentionMask::causal(), [](I i, I j) { return j <= i + 1; }},
      {"window", 5, 5, AttentionMask::window(1), [](I i, I j) { return i <= j + 1 && j <= i + 1; }},
      {"window, one query", 1, 9, AttentionMask::window(2), [](I, I j) { return j >= 6; }},
      {"wide window", 5, 5, AttentionMask::window(~I{0} - 1), [](I, I) { return true; }},
      {"widest window", 5, 5, AttentionMask::window(~I{0}), [](I, I) { return true; }},
      {"padding", 2, 4, AttentionMask::padding({3}), [](I, I j) { return j < 3; }},
      {"no key", 2, 4, AttentionMask::padding({0}), [](I, I) { return false; }},
      {"keep", 2, 3, AttentionMask::keep(1, 2, 3, {0, 0, 0, 1, 0, 1}),
       [](I i, I j) { return i == 1 && j != 1; }},
      {"combined", 3, 3, combined, [](I i, I j) { return j == (i == 0 ? 0 : 1); }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const Tensor q = random_leaf({1, c.n_q, 2}, 1), k = random_leaf({1, c.n_k, 2}, 2);
    const auto w = values_of(attention_weights(q, k, {.mask = c.mask}));
    for (std::size_t i = 0; i < c.n_q; ++i) {
      double sum = 0.0;
      bool any = false;
      for (std::size_t j = 0; j < c.n_k; ++j) {
        CHECK((w[i * c.n_k + j] > 0.0) == c.allows(i, j));
        any = any || c.allows(i, j);
        sum += w[i * c.n_k + j];
      }
      CHECK(sum == doctest::Approx(any ? 1.0 : 0.0));
    }
  }
}

TEST_CASE("a fully masked sentence gives zeros and does not affect other sentences of the batch") {
  constexpr std::size_t batch = 3, n_q = 3, n_k = 70;
  std::vector<std::uint8_t> keep(batch * n_q * n_k, 1);
  std::fill_n(keep.begin() + n_q * n_k, n_q * n_k, std::uint8_t{0});
  const AttentionMask masks[] = {AttentionMask::padding({70, 0, 70}),
                                 AttentionMask::padding({70, 0, 70}) & AttentionMask::causal(),
                                 AttentionMask::keep(batch, n_q, n_k, keep)};
  const AttentionMask without[] = {AttentionMask(), AttentionMask::causal(), AttentionMask()};
  for (const DType dtype : dtypes) {
    const Tensor q = random_leaf({batch, n_q, 10}, 1).detach().to(dtype);
    const Tensor k = random_leaf({batch, n_k, 10}, 2).detach().to(dtype);
    const Tensor v = random_leaf({batch, n_k, 6}, 3).detach().to(dtype);
    for (std::size_t m = 0; m < std::size(masks); ++m) {
      for (const double rate : {0.0, 0.4}) {
        const auto with = [&](const AttentionMask& mask) {
          return attention_results(
              q, k, v, {.num_heads = 2, .mask = mask, .dropout = rate, .random = RandomStream(5)});
        };
        const auto masked = with(masks[m]), plain = with(without[m]);
        CHECK(part(masked, batch, 0) == part(plain, batch, 0));
        if (rate == 0.0) CHECK(part(masked, batch, 2) == part(plain, batch, 2));
        const std::vector<double> zeros(n_k * 10);
        CHECK(difference(part(masked, batch, 1), {std::vector<double>(n_q * 6),
                                                  {std::vector<double>(n_q * 10), zeros,
                                                   std::vector<double>(n_k * 6)}}) == 0.0);
      }
    }
  }
}

TEST_CASE("keys that no query attends to keep the gradients of their other uses") {
  const AttentionMask mask = AttentionMask::padding({2});
  for (const std::size_t n_q : {3, 70}) {  // one tile, then two tiles
    const Tensor q = random_leaf({1, n_q, 2}, 1), k = random_leaf({1, 4, 2}, 2);
    const Tensor v = random_leaf({1, 4, 2}, 3);
    Tape tape;
    const Tensor attended = attend(q, k, v, mask);
    // The sums come last, so backward computes their gradients first.
    tape.backward(sum(attended) + (sum(k) + sum(v)));
    for (const Tensor& x : {k, v}) {
      const std::vector<double> gradient = values_of(x.grad());
      for (std::size_t i = 4; i < 8; ++i) CHECK(gradient[i] == 1.0);
      for (std::size_t i = 0; i < 4; ++i) CHECK(gradient[i] != 1.0);
    }
  }
}

TEST_CASE("attention accepts 0 sentences, 0 queries and 0 keys") {
  const auto results = [&](const Shape& q, const Shape& k) {
    return attention_results(Tensor::zeros(q, DType::float64), Tensor::zeros(k, DType::float64),
                             Tensor::ones(k, DType::float64), {});
  };
  const std::vector<double> zero(24, 0.0);
  CHECK(results({0, 2, 4}, {0, 3, 4}) == Results{{}, {{}, {}, {}}});
  CHECK(results({2, 0, 4}, {2, 3, 4}) == Results{{}, {{}, zero, zero}});
  CHECK(results({2, 3, 4}, {2, 0, 4}) == Results{zero, {zero, {}, {}}});
  CHECK(attention_weights(zeros({2, 3, 4}), zeros({2, 0, 4})).shape() == Shape{2, 1, 3, 0});
}

TEST_CASE("NaN and infinity at masked keys change no value and no gradient, even with dropout") {
  struct Size {
    std::size_t queries, keys, width = 4;
  };
  // More than one tile of queries, more keys than one product handles, rows wider than a vector.
  for (const Size& size : {Size{70, 67}, Size{3, 530}, Size{5, 20, 44}}) {
    const std::size_t queries = size.queries, keys = size.keys;
    CAPTURE(keys);
    const AttentionMask masks[] = {AttentionMask::padding({static_cast<std::int32_t>(keys) - 1}),
                                   without_last_key(1, queries, keys)};
    for (const DType dtype : dtypes) {
      const Tensor q = random_leaf({1, queries, size.width}, 1).detach().to(dtype);
      const Tensor k = with_last_row(random_leaf({1, keys, size.width}, 2).detach().to(dtype), 0.0);
      const Tensor v = with_last_row(random_leaf({1, keys, size.width}, 3).detach().to(dtype), 0.0);
      const Tensor w = random_leaf({2, size.width / 2}, 4).detach().to(dtype);
      for (const AttentionMask& mask : masks) {
        for (const double rate : {0.0, 0.5}) {
          const AttentionOptions options{
              .num_heads = 2, .mask = mask, .dropout = rate, .random = RandomStream(5)};
          const auto additive = [&](const Tensor& keys_in, const Tensor& values_in) {
            return results_of(
                [&](const Operands& o) {
                  return additive_attention(o[0], o[1], o[2], o[3], options);
                },
                {q, keys_in, values_in, w});
          };
          const Results expected = attention_results(q, k, v, options), other = additive(k, v);
          for (const double hidden : {not_a_number, inf, -inf}) {
            CAPTURE(hidden);
            const Tensor bad_k = with_last_row(k, hidden), bad_v = with_last_row(v, hidden);
            CHECK(difference(attention_results(q, bad_k, bad_v, options), expected) < 1e-5);
            CHECK(difference(additive(bad_k, bad_v), other) < 1e-5);
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
  // Two heads. First a size with several pieces of work; then n_q > n_k and n_q < n_k, each with
  // d_k < d_v and d_k > d_v.
  for (const Size& size : {Size{18, 18, 300, 300}, Size{5, 2, 2, 6}, Size{2, 5, 6, 2},
                           Size{5, 2, 6, 2}, Size{2, 5, 2, 6}}) {
    const std::size_t n_q = size.n_q, n_k = size.n_k;
    CAPTURE(n_q);
    CAPTURE(size.d_k);
    std::vector<std::uint8_t> last_query(2 * n_q * n_k, 1);
    std::fill_n(last_query.end() - static_cast<std::ptrdiff_t>(n_k), n_k, std::uint8_t{0});
    const AttentionOptions options{
        .num_heads = 2,
        .mask = without_last_key(2, n_q, n_k) & AttentionMask::keep(2, n_q, n_k, last_query)};
    const Operands sound{random_leaf({2, n_q, 2 * size.d_k}, 1),
                         random_leaf({2, n_k, 2 * size.d_k}, 2),
                         random_leaf({2, n_k, 2 * size.d_v}, 3)};
    for (std::size_t which = 0; which <= sound.size(); ++which) {
      for (const double hidden : {not_a_number, inf, -inf}) {
        CAPTURE(which);
        CAPTURE(hidden);
        Operands x = sound;
        if (which < x.size()) x[which] = with_last_row(x[which], hidden);
        const Operands leaves = leaves_of(x);
        Tape tape;
        const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], options);
        const Tensor dy = upstream_of(y);
        tape.backward(y, which == x.size() ? with_last_row(dy, hidden) : dy);
        CHECK(all_finite({values_of(y), gradient_values(leaves)}));
      }
    }
  }
}

TEST_CASE("attention with scores of +-1e4 has weights 0, 1 and 1/2, and finite gradients") {
  for (const DType dtype : dtypes) {
    const Tensor q = column({100, -100}, dtype), k = column({100, -100, 100}, dtype);
    check_values(attention_weights(q, k), {0.5, 0, 0.5, 0, 1, 0});
    const Results results = attention_results(q, k, column({1, 2, 5}, dtype), {});
    CHECK(results.y == std::vector<double>{3, 2});
    CHECK(all_finite(results));
    CHECK(results.gradients[1][1] == 0.0);  // no weight depends on key 1
  }
}

TEST_CASE(
    "additive attention with saturated and infinite sums has scores +-w and finite gradients") {
  const double e = std::exp(1.0);
  check_worked({worked("saturated",
                       {exact({1, 1, 1}, {0}), exact({1, 3, 1}, {1e4, -1e4, inf}),
                        exact({1, 3, 1}, {1, 2, 3}), exact({1, 1}, {0.5})},
                       [](const Operands& o) { return additive_attention(o[0], o[1], o[2], o[3]); },
                       exact({1, 1, 1}, {(4 * e + 2) / (2 * e + 1)}), {1}, {{0}, {0, 0, 0}})});
}

TEST_CASE("scores of -inf act as masks, even if all scores of a query are -inf") {
  for (const DType dtype : dtypes) {
    const Tensor v = column({1, 2, 5}, dtype);
    const Results one =
        attention_results(column({1, 2}, dtype), column({0.5, 1.5, -inf}, dtype), v, {});
    CHECK(difference(one, attention_results(column({1, 2}, dtype), column({0.5, 1.5, 0}, dtype), v,
                                            {.mask = AttentionMask::padding({2})})) < 1e-6);
    const Tensor k = column({-1, -2}, dtype), w = column({3, 4}, dtype);
    const Results all = attention_results(column({inf, 1}, dtype), k, w, {});
    CHECK(all.y[0] == 0.0);
    CHECK(all.gradients[0][0] == 0.0);
    CHECK(difference(all, attention_results(column({0, 1}, dtype), k, w,
                                            {.mask = AttentionMask::keep(1, 2, 2, {0, 0, 1, 1})})) <
          1e-6);
  }
}

TEST_CASE("a score of +inf gives NaN only to the queries that may attend to its key") {
  for (const DType dtype : dtypes) {
    const Tensor q = column({1, 1, 1}, dtype);
    const auto y = values_of(attend(q, column({1, 2, inf}, dtype), q, AttentionMask::causal()));
    CHECK(y[0] == 1.0);
    CHECK(y[1] == doctest::Approx(1.0));
    CHECK(std::isnan(y[2]));
  }
}

TEST_CASE(
    "float32 gradients of attention are close to float64 even if scores are in the thousands") {
  // All keys have one large common coordinate: scores are far from 0, and weights are nearly equal.
  const auto leaf = [](std::uint64_t seed, double shared) {
    Tensor x = random_leaf({1, 6, 4}, seed);
    for (std::size_t row = 0; row < 6; ++row) x.mutable_values<double>()[row * 4] = shared;
    return x.detach().to(DType::float32);
  };
  const Tensor x[] = {leaf(1, 80.0), leaf(2, 100.0),
                      random_leaf({1, 6, 4}, 3).detach().to(DType::float32)};
  const auto single = attention_results(x[0], x[1], x[2], {});
  const auto twice =
      attention_results(x[0].detach().to(DType::float64), x[1].detach().to(DType::float64),
                        x[2].detach().to(DType::float64), {});
  for (const std::size_t which : {0, 1}) {
    double largest = 0.0, worst = 0.0;
    for (std::size_t i = 0; i < 24; ++i) {
      largest = std::max(largest, std::abs(twice.gradients[which][i]));
      worst = std::max(worst, std::abs(single.gradients[which][i] - twice.gradients[which][i]));
    }
    CHECK(worst < 2e-3 * largest);
  }
}

TEST_CASE("attention with num_keys is bit-identical to attention over a slice of the keys") {
  const auto with_room = [](const Tensor& x) {
    return concat({x, Tensor::full({3, 5, x.shape()[2]}, not_a_number, x.dtype())}, 1);
  };
  for (const DType dtype : dtypes) {
    for (const std::size_t n_q : {1, 3}) {
      for (const std::size_t n_k : {3, 16, 21}) {
        const Tensor q = random_leaf({3, n_q, 8}, 1).detach().to(dtype);
        const Tensor k = random_leaf({3, n_k, 8}, 2).detach().to(dtype);
        const Tensor v = random_leaf({3, n_k, 6}, 3).detach().to(dtype);
        const Tensor odd = with_last_row(v, not_a_number),
                     w = random_leaf({2, 4}, 4).detach().to(dtype);
        const AttentionMask masks[] = {{},
                                       AttentionMask::causal(),
                                       AttentionMask::window(2),
                                       AttentionMask::padding({1, 2, 1}),
                                       without_last_key(3, n_q, n_k)};
        for (const AttentionMask& mask : masks) {
          for (const bool alibi : {false, true}) {
            AttentionOptions options{.num_heads = 2, .mask = mask, .alibi = alibi};
            const auto results = [&](const Tensor& keys, const Tensor& values,
                                     const Tensor& odd_values) {
              return std::vector{
                  scaled_dot_product_attention(q, keys, values, options).to_vector(),
                  attention_weights(q, keys, options).to_vector(),
                  additive_attention(q, keys, values, w, options).to_vector(),
                  scaled_dot_product_attention(q, keys, odd_values, options).to_vector()};
            };
            const auto expected = results(k, v, odd);
            options.num_keys = n_k;
            const auto found = results(with_room(k), with_room(v), with_room(odd));
            for (std::size_t i = 0; i < found.size(); ++i) {
              CHECK(first_difference(found[i], expected[i], 0.0) == "");
            }
          }
        }
      }
    }
  }
}

TEST_CASE("attention rejects num_keys above the number of keys, and rejects num_keys on a tape") {
  const Tensor q = random_leaf({1, 2, 4}, 1), k = random_leaf({1, 3, 4}, 2);
  check_error<ShapeError>("num_keys is 4|(1, 3, 4)",
                          [&] { scaled_dot_product_attention(q, k, k, {.num_keys = 4}); });
  const Tape tape;
  CHECK_THROWS_AS(scaled_dot_product_attention(q, k, k, {.num_keys = 2}), ValueError);
}
