#pragma once

#include <vector>

#include "autograd/ops/attention.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

/// What the tests of attention share.
namespace tapestry::test {

inline Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                     std::size_t heads = 1) {
  return scaled_dot_product_attention(q, k, v, {.num_heads = heads, .mask = mask});
}

struct AttentionResults {
  std::vector<double> y, dq, dk, dv;

  bool operator==(const AttentionResults&) const = default;
};

/// The value, and the gradients for uneven upstream ones, on leaves with the values of q, k and v.
inline AttentionResults attention_results(const Tensor& q, const Tensor& k, const Tensor& v,
                                          const AttentionOptions& options) {
  const auto leaf = [](const Tensor& x) { return x.copied(x.dtype()).require_gradient(); };
  const Tensor own_q = leaf(q), own_k = leaf(k), own_v = leaf(v);
  Tape tape;
  const Tensor y = scaled_dot_product_attention(own_q, own_k, own_v, options);
  tape.backward(y, random_leaf(y.shape(), 77).copied(y.dtype()));
  return {values_of(y), values_of(own_q.gradient()), values_of(own_k.gradient()),
          values_of(own_v.gradient())};
}

}  // namespace tapestry::test
