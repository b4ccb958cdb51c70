#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "autograd/tensor.h"
#include "data/batch.h"

/// Batches made by selecting, reordering or padding the rows of another batch.
namespace tapestry {

/// The rows with these indices, in this order, padded to the longest of them.
Batch select_rows(const Batch& batch, std::span<const std::size_t> rows);

/// Rows `begin` to `end`, exclusive.
Batch select_rows(const Batch& batch, std::size_t begin, std::size_t end);

/// The same rows with more columns of padding.
Batch add_padding(const Batch& batch, std::size_t source_columns, std::size_t target_columns);

/// The largest difference between the logits of the same sentences in two batches.
struct LogitDifference {
  double most = 0.0;     ///< largest absolute difference; infinity if one logit is NaN
  double largest = 0.0;  ///< largest magnitude of the logits of the first batch
  std::size_t sentence = 0, token = 0;  ///< indices from 0, in the first batch
  double before = 0.0, after = 0.0;

  /// "logits of sentence 2 at token 4 went from 0.1234 to 0.1240"
  std::string to_string() const;
};

/// Compares logits of two batches. Sentence r of `after`, (rows, any length, vocabulary), is
/// sentence order[r] of `batch`, whose logits are `before`. Logits at padding are ignored.
LogitDifference largest_difference(const Batch& batch, const Tensor& before, const Tensor& after,
                                   std::span<const std::size_t> order);

/// The same for sentences in unchanged order.
LogitDifference largest_difference(const Batch& batch, const Tensor& before, const Tensor& after);

/// The tolerance, relative to the largest logit, for moving a sentence to another row of the batch:
/// 0 with Tapestry's own matrix products; 1e-12 with BLAS (builds without SIMD kernels), which sums
/// rows at the edge of a matrix in a different order than rows inside.
double allowed_rounding();

}  // namespace tapestry
