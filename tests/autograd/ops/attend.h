// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "autograd/ops/attention.h"
#include "tests/support/cases.h"

/// Helpers of the attention tests.
namespace tapestry::test {

inline Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                     std::size_t heads = 1) {
  return scaled_dot_product_attention(q, k, v, {.num_heads = heads, .mask = mask});
}

/// The value, and the gradients of q, k and v.
inline Results attention_results(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const AttentionOptions& options) {
  return results_of(
      [&](const Operands& o) { return scaled_dot_product_attention(o[0], o[1], o[2], options); },
      {q, k, v});
}

}  // namespace tapestry::test
