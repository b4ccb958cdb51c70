// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "autograd/ids.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Options of `cross_entropy`. The member initializers are the defaults.
struct CrossEntropyOptions {
  /// Targets with this id have no loss and no gradient. The default ignores no targets.
  std::int32_t ignored_id = std::numeric_limits<std::int32_t>::min();
  double label_smoothing = 0.0;  ///< alpha, in [0, 1)
  /// Divisor of the sum over targets; 0 means the number of targets that are not ignored. For
  /// gradient accumulation, set it to the number of targets of all batches.
  std::size_t normalizer = 0;
};

/// A loss, and sums for reporting perplexity.
struct Loss {
  Tensor mean;           ///< a scalar, the training objective; differentiable
  double nll_sum = 0.0;  ///< sum of -log p(target) over the targets, without label smoothing
  /// Number of targets that are not ignored; perplexity = exp(nll_sum / num_targets).
  std::size_t num_targets = 0;
};

/// Cross entropy of softmax(logits) with label smoothing [1], averaged over the targets:
///
///     loss = sum_t ((1 - alpha) * l_t[target_t] + alpha / V * sum_j l_t[j]) / normalizer
///
/// with p = softmax(logits) and l = -log p, row by row. Smoothing distributes alpha over the whole
/// vocabulary, including the target.
///
/// logits   (..., V), V >= 1
/// targets  (...), each in [0, V) or ignored
/// returns  the loss, and the sum of -log p(target) for the perplexity
/// throws   ShapeError if the shapes do not match; ValueError if an id or alpha is out of range, or
///          if all targets are ignored and no normalizer is given.
///
/// dL/dlogits = (p - (1 - alpha) * onehot(target) - alpha / V) * g / normalizer; 0 where ignored.
///
/// [1] Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision", section 7.
Loss cross_entropy(const Tensor& logits, const Ids& targets,
                   const CrossEntropyOptions& options = {});

/// Accuracy of a classifier: the fraction of targets that argmax(logits) predicts, in [0, 1].
///
/// logits      (..., V), V >= 1; among equal maxima of a row, the first maximum is predicted
/// targets     (...), each in [0, V) or ignored
/// ignored_id  targets with this id do not count; the default ignores no targets
/// throws      ShapeError if the shapes do not match; ValueError if an id is out of range, or if
///             all targets are ignored.
double accuracy(const Tensor& logits, const Ids& targets,
                std::int32_t ignored_id = CrossEntropyOptions{}.ignored_id);

/// cross_entropy(linear(x, weight, bias), targets), fused: the logits are computed in chunks of
/// rows, converted to their gradient and multiplied back while they are in cache, and never stored
/// as a whole. Rows with an ignored target are skipped. The forward pass computes the gradients,
/// because the logits are not kept; backward only scales them.
///
/// x        (..., d)
/// weight   (V, d), V >= 1
/// bias     (V), or Tensor() to add no bias
/// targets  (...), each in [0, V) or ignored
/// options  the same as for cross_entropy
/// returns  the same as cross_entropy
/// throws   the errors of linear and cross_entropy
///
/// With G = dL/dlogits of cross_entropy: dL/dx = G W, dL/dW = G^T x, dL/db = the sum of the rows of
/// G.
Loss linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Ids& targets, const CrossEntropyOptions& options = {});

/// Binary cross entropy of sigmoid(logits), for labels that do not exclude each other (multi-label
/// classification); mean over all elements, a scalar:
///
///     loss = 1 / n * sum over i of -(t_i log(sigmoid(z_i)) + (1 - t_i) log(1 - sigmoid(z_i)))
///
/// computed as |z| (z > 0 ? 1 - t : t) + log(1 + e^-|z|), which neither overflows nor cancels. At
/// z = +-infinity, the loss is 0 for the target that this logit predicts, and infinite otherwise.
///
/// logits   z, any shape with at least one element.
/// target   t, same shape (no broadcasting), each in [0, 1]: the probability of the label.
/// returns  ()
/// throws   ShapeError if the shapes differ or are empty, DTypeError if the element types differ,
///          ValueError if a target is out of range.
///
/// dL/dlogits = (sigmoid(z) - t) / n * dL/dy, dL/dtarget = -z / n * dL/dy.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target);

/// Mean over all elements of (prediction - target)^2, a scalar, accumulated in float64.
///
/// prediction, target  same shape (no broadcasting), such as (), with at least one element.
/// returns             ()
/// throws              ShapeError if the shapes differ or are empty, DTypeError if the element
///                     types differ.
///
/// dL/dprediction = 2 / n * (prediction - target) * dL/dy for n elements; dL/dtarget is its
/// negative.
Tensor mean_squared_error(const Tensor& prediction, const Tensor& target);

}  // namespace tapestry
