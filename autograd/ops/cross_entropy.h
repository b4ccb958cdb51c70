#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "autograd/ids.h"
#include "autograd/tensor.h"

namespace tapestry {

struct CrossEntropyOptions {
  /// Targets with this id count for nothing. The default ignores none.
  std::int32_t ignored_id = std::numeric_limits<std::int32_t>::min();
  double label_smoothing = 0.0;  ///< alpha, in [0, 1)
  /// What the sum over targets is divided by; 0 means the number of targets that are not ignored.
  /// Gradient accumulation gives the number over all its batches.
  std::size_t normalizer = 0;
};

/// Cross entropy of softmax(logits) with label smoothing [1], averaged over the targets:
///
///     loss = sum_t ((1 - alpha) * -log p_t[target_t] + alpha / V * sum_j -log p_t[j]) / normalizer.
///
/// Smoothing spreads alpha over the whole vocabulary, target included.
///
/// logits   (rows, length, V), V >= 1
/// targets  (rows, length), each in [0, V) or ignored
/// nll_sum  if given, gets the sum over the targets of -log p(target), which perplexity is made of
/// returns  a scalar
/// throws   ShapeError if the shapes do not fit, ValueError if an id is out of range, all targets are
///          ignored (and no normalizer is given) or alpha is out of range.
///
/// dL/dlogits = (p - (1 - alpha) * onehot(target) - alpha / V) * g / normalizer; 0 where ignored.
///
/// [1] Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision", section 7.
Tensor cross_entropy(const Tensor& logits, const Ids& targets,
                     const CrossEntropyOptions& options = {}, double* nll_sum = nullptr);

}  // namespace tapestry
