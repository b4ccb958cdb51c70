#include <doctest/doctest.h>

#include <limits>

#include "autograd/error.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// x (batch, n, width) with `more` tokens of NaN behind those of each sentence.
Tensor with_room(const Tensor& x, std::size_t more) {
  const Tensor rest = Tensor::full({x.shape()[0], more, x.shape()[2]}, not_a_number, x.dtype());
  return concat({x, rest}, 1);
}

/// Every kind of option that compares positions, and keep masks.
std::vector<AttentionOptions> options_of_each_kind(std::size_t n_q, std::size_t n_k) {
  std::vector<std::uint8_t> keep(3 * n_q * n_k, 1);
  for (std::size_t i = 0; i < keep.size(); i += 3) keep[i] = 0;
  const auto with = [](const AttentionMask& mask, bool alibi = false) {
    return AttentionOptions{.num_heads = 2, .mask = mask, .alibi = alibi};
  };
  return {with({}),
          with(AttentionMask::causal()),
          with(AttentionMask::window(2)),
          with(AttentionMask::padding({1, 2, 1})),
          with(AttentionMask::keep(3, n_q, n_k, keep)),
          with(AttentionMask::causal(), true)};
}

}  // namespace

TEST_CASE("attention with num_keys has the bits of attention to a slice of the keys") {
  for (const DType dtype : dtypes) {
    for (const std::size_t n_q : {1, 3}) {
      for (const std::size_t n_k : {3, 16, 21}) {
        const Tensor q = random_leaf({3, n_q, 8}, 1).copied(dtype);
        const Tensor k = random_leaf({3, n_k, 8}, 2).copied(dtype);
        const Tensor v = random_leaf({3, n_k, 6}, 3).copied(dtype);
        const Tensor w = random_leaf({2, 4}, 4).copied(dtype);
        for (AttentionOptions options : options_of_each_kind(n_q, n_k)) {
          const auto y = scaled_dot_product_attention(q, k, v, options).to_vector();
          const auto weights = attention_weights(q, k, options).to_vector();
          const auto additive = additive_attention(q, k, v, w, options).to_vector();
          options.num_keys = n_k;
          const Tensor more_k = with_room(k, 5), more_v = with_room(v, 5);
          CHECK(scaled_dot_product_attention(q, more_k, more_v, options).to_vector() == y);
          CHECK(attention_weights(q, more_k, options).to_vector() == weights);
          CHECK(additive_attention(q, more_k, more_v, w, options).to_vector() == additive);
        }
      }
    }
  }
}

TEST_CASE("attention with num_keys detects values that are not finite among the first keys") {
  const Tensor q = random_leaf({3, 1, 4}, 1), k = random_leaf({3, 2, 4}, 2);
  for (std::ptrdiff_t sentence = 0; sentence < 3; ++sentence) {
    Tensor v = random_leaf({3, 2, 4}, 3).copied(DType::float64);
    v.mutable_values<double>()[static_cast<std::size_t>(sentence) * 8 + 5] = not_a_number;
    AttentionOptions options{.mask = AttentionMask::padding({1, 1, 1})};
    const auto y = scaled_dot_product_attention(q, k, v, options).to_vector();
    options.num_keys = 2;
    CHECK(scaled_dot_product_attention(q, with_room(k, 1), with_room(v, 1), options).to_vector() ==
          y);
  }
}

TEST_CASE("attention refuses num_keys above the number of keys, and on a tape") {
  const Tensor q = random_leaf({1, 2, 4}, 1), k = random_leaf({1, 3, 4}, 2);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(q, k, k, {.num_keys = 4}),
                       "scaled_dot_product_attention: num_keys is 4, but k has shape (1, 3, 4)",
                       ShapeError);
  const Tape tape;
  CHECK_THROWS_AS(scaled_dot_product_attention(q, k, k, {.num_keys = 2}), ValueError);
}
