// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/tensor.h"
#include "data/batch.h"
#include "layers/basic_layers.h"
#include "train/checks/check.h"

/// One training step of the checked model, batches for it, and comparisons of two such steps.
namespace tapestry {

struct StepOptions {
  Mode mode = Mode::inference();
  double label_smoothing = 0.0;  ///< in [0, 1)
  std::size_t normalizer = 0;    ///< see CrossEntropyOptions
};

/// The values that a training step computes, as doubles in row-major order.
struct StepValues {
  double loss;
  std::vector<double> logits;
  std::vector<std::vector<double>>
      gradients;  ///< one vector per parameter; empty if the parameter has no gradient
};

std::vector<double> to_doubles(const Tensor& x);

/// The logits of `batch` without dropout, (rows, target length, vocabulary).
Tensor compute_logits(const CheckedModel& model, const Batch& batch);
double compute_loss(const CheckedModel& model, const Batch& batch, const StepOptions& options);

/// Runs forward and backward. Adds to the gradients of the parameters and returns the accumulated
/// gradients.
StepValues run_step(CheckedModel& model, const Batch& batch, const StepOptions& options);

/// Runs a step with the dropout and label smoothing of the first training step.
StepOptions training_options(const CheckContext& context);

/// Describes the first value whose bits differ between two steps of the same model, including both
/// values; nullopt if all values are equal.
std::optional<std::string> first_difference(const CheckedModel& model, const StepValues& a,
                                            const StepValues& b);

/// The distance between a parameter's gradients in two steps.
struct GradientDistance {
  double relative = 0.0;  ///< L2 norms: |a - b| / max(|b|, 1e-3 times the largest |b|)
  std::string parameter;
};

/// The parameter with the largest distance. The bias of a key projection has gradient 0 up to
/// rounding, since adding a constant to all scores leaves the softmax unchanged; because of such
/// parameters, the denominator has a lower bound. The distance is infinite if a gradient has a NaN
/// or exists in only one of the steps.
GradientDistance max_distance(const CheckedModel& model, const StepValues& a, const StepValues& b);

/// The gradient of one position's weighted logits with respect to each token vector: the maximum
/// magnitude for each token, (rows, length). `source` is empty if the model has no source, `target`
/// if it has no target.
struct Influence {
  std::vector<double> source, target;
};

/// The influence on the logits of target position t.
Influence influence_on(std::size_t t, const CheckedModel& model, const Batch& batch);

// ---- Batches made by selecting, reordering or padding the rows of another batch.

/// The rows with these indices, in this order, padded to the longest selected row.
Batch select_rows(const Batch& batch, std::span<const std::size_t> rows);

/// Rows `begin` to `end`, exclusive.
Batch select_rows(const Batch& batch, std::size_t begin, std::size_t end);

/// The rows with these indices, with additional columns of padding.
Batch add_padding(const Batch& batch, std::size_t source_columns, std::size_t target_columns);

/// The largest difference between the logits of the same sentences in two batches.
struct LogitDifference {
  double max = 0.0;                     ///< maximum absolute difference; infinity if a logit is NaN
  double scale = 0.0;                   ///< maximum magnitude of the logits of the first batch
  std::size_t sentence = 0, token = 0;  ///< indices from 0, in the first batch
  double before = 0.0, after = 0.0;

  /// Formats the difference as "logits of sentence 2 at token 4 went from 0.1234 to 0.1240".
  std::string to_string() const;
};

/// Compares logits of two batches. Sentence r of `after`, (rows, any length, vocabulary), is
/// sentence order[r] of `batch`, whose logits are `before`. Logits at padding are ignored.
LogitDifference max_difference(const Batch& batch, const Tensor& before, const Tensor& after,
                               std::span<const std::size_t> order);

/// Compares sentences in unchanged order.
LogitDifference max_difference(const Batch& batch, const Tensor& before, const Tensor& after);

/// The tolerance, relative to the largest logit, for moving a sentence to another row of the batch:
/// 0 with Tapestry's own matrix products; 1e-12 with BLAS (builds without SIMD kernels), which sums
/// rows at the edge of a matrix in a different order than inner rows.
double allowed_rounding();

}  // namespace tapestry
