#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "autograd/tensor.h"
#include "data/batch.h"

/// Batches made from the rows of another batch.
namespace tapestry {

/// The rows with these indices, in this order, padded to the longest of them.
Batch select_rows(const Batch& batch, std::span<const std::size_t> rows);

/// Rows `begin` to `end`, exclusive.
Batch select_rows(const Batch& batch, std::size_t begin, std::size_t end);

/// The same rows with more columns of padding.
Batch add_padding(const Batch& batch, std::size_t source_columns, std::size_t target_columns);

/// The largest difference between the logits of the same sentences in two batches.
struct LogitDifference {
  double most = 0.0;                    ///< absolute; infinity if one is NaN
  double largest = 0.0;                 ///< magnitude of the logits before
  std::size_t sentence = 0, token = 0;  ///< from 0, in the batch before
  double before = 0.0, after = 0.0;

  /// "logits of sentence 2 at token 4 went from 0.1234 to 0.1240"
  std::string to_string() const;
};

/// Sentence r of `after`, (rows, any length, vocabulary), is sentence order[r] of `batch`, whose
/// logits are `before`. Logits of padding do not count.
LogitDifference largest_difference(const Batch& batch, const Tensor& before, const Tensor& after,
                                   std::span<const std::size_t> order);

/// The same for sentences in the same order.
LogitDifference largest_difference(const Batch& batch, const Tensor& before, const Tensor& after);

/// The tolerance, relative to the largest logit, when a sentence moves to another row: 0 with our
/// own matrix products; 1e-12 with BLAS (builds without SIMD kernels), which sums the rows at the
/// edge of a matrix in another order than those inside.
double allowed_rounding();

}  // namespace tapestry
