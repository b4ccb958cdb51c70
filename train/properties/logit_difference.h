#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "autograd/tensor.h"
#include "data/batch.h"

namespace tapestry {

/// Where the logits of tokens differ most between two batches of the same sentences.
struct LogitDifference {
  double most = 0.0;                    ///< absolute; infinity if one is NaN
  double largest = 0.0;                 ///< magnitude of the logits before
  std::size_t sentence = 0, token = 0;  ///< from 0, in the batch before
  double before = 0.0, after = 0.0;

  /// "logits of sentence 2 at token 4 went from 0.1234 to 0.1240"
  std::string to_string() const;
};

/// Sentence r of `after`, (rows, any length, vocabulary), is sentence order[r] of `batch`, whose
/// logits are `before`. What stands behind the end of a target does not count.
LogitDifference largest_difference(const Batch& batch, const Tensor& before, const Tensor& after,
                                   std::span<const std::size_t> order);

/// The same for sentences in the same order.
LogitDifference largest_difference(const Batch& batch, const Tensor& before, const Tensor& after);

/// What may differ, in units of the largest logit, where a sentence stands elsewhere in a batch:
/// nothing. BLAS, which multiplies in builds without wide vectors, adds up the rows at the edge of
/// a matrix in another order than those inside.
double allowed_rounding();

}  // namespace tapestry
