#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "autograd/ids.h"
#include "autograd/tensor.h"

namespace tapestry {

struct CrossEntropyOptions {
  /// Targets with this id are ignored: no loss, no gradient. The default ignores none.
  std::int32_t ignored_id = std::numeric_limits<std::int32_t>::min();
  double label_smoothing = 0.0;  ///< alpha, in [0, 1)
  /// Divisor of the sum over targets; 0 means the number of targets that are not ignored. Gradient
  /// accumulation sets it to the number over all its batches.
  std::size_t normalizer = 0;
};

/// A loss and the sums for its report.
struct Loss {
  Tensor mean;                  ///< a scalar, what training minimizes; has the gradient
  double nll_sum = 0.0;         ///< sum over the targets of -log p(target), without label smoothing
  std::size_t num_targets = 0;  ///< that are not ignored; perplexity = exp(nll_sum / num_targets)
};

/// Cross entropy of softmax(logits) with label smoothing [1], averaged over the targets:
///
///     loss = sum_t ((1 - alpha) * l_t[target_t] + alpha / V * sum_j l_t[j]) / normalizer
///
/// with p = softmax(logits) and l = -log p, row by row. Smoothing spreads alpha over the whole
/// vocabulary, target included.
///
/// logits   (rows, length, V), V >= 1
/// targets  (rows, length), each in [0, V) or ignored
/// returns  the loss, and the sum of -log p(target) for the perplexity
/// throws   ShapeError if the shapes do not fit; ValueError if an id or alpha is out of range, or
///          if all targets are ignored and no normalizer is given.
///
/// dL/dlogits = (p - (1 - alpha) * onehot(target) - alpha / V) * g / normalizer; 0 where ignored.
///
/// [1] Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision", section 7.
Loss cross_entropy(const Tensor& logits, const Ids& targets,
                   const CrossEntropyOptions& options = {});

/// cross_entropy(linear(x, weight, bias), targets), fused: the logits are computed in chunks of
/// rows, turned into their gradient and multiplied back while they are in cache, and never stored
/// as a whole. Rows with an ignored target cost nothing. The forward pass computes the gradients,
/// because the logits are gone afterwards; backward only scales them.
///
/// x        (rows, length, d)
/// weight   (V, d), V >= 1
/// bias     (V), or no tensor
/// others   as for cross_entropy
/// throws   as linear and cross_entropy do
///
/// With G = dL/dlogits of cross_entropy: dL/dx = G W, dL/dW = G^T x, dL/db = the sum of G's rows.
Loss linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Ids& targets, const CrossEntropyOptions& options = {});

/// Mean over all elements of (prediction - target)^2, a scalar, accumulated in float64.
///
/// prediction, target  one shape (nothing broadcasts) with at least one element.
/// throws              ShapeError if the shapes differ or are empty, DTypeError if the element
///                     types differ.
///
/// dL/dprediction = 2 / n * (prediction - target) * dL/dy for n elements; dL/dtarget is its
/// negative.
Tensor mean_squared_error(const Tensor& prediction, const Tensor& target);

}  // namespace tapestry
