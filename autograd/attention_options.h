#pragma once

#include <cstddef>
#include <optional>

#include "autograd/attention_mask.h"
#include "autograd/random.h"

namespace tapestry {

/// Options of all attention operations, independent of the score.
///
/// [1] Press et al. 2022, "Train Short, Test Long" (ALiBi). The slopes of n heads are 2^(-8 / n),
///     2^(-16 / n), ... if n is a power of two; kernels/attention_scores.h has the other cases. If
///     there are fewer queries than keys, the queries have the last positions.
struct AttentionOptions {
  std::size_t num_heads = 1;      ///< number of heads side by side in the last axis of q, k and v
  AttentionMask mask{};           ///< which keys each query may attend to; all by default
  std::optional<double> scale{};  ///< factor of the scores; 1 / sqrt(d_k) if not given
  bool alibi = false;             ///< add -slope |i - j| to the scores [1], with one slope per head
  double dropout = 0.0;           ///< rate at which weights are dropped, in [0, 1]
  RandomStream random{};          ///< stream for dropout; a stream that is off disables dropout
  /// Only the first `num_keys` keys and values of each sentence are read; all by default. For
  /// inference with a cache that has room for more keys than it holds: not differentiable.
  std::optional<std::size_t> num_keys{};
};

}  // namespace tapestry
