#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "layers/basic_layers.h"
#include "train/checks/check.h"

/// One training step of the checked model, and comparisons of two such steps.
namespace tapestry {

struct StepOptions {
  Mode mode = Mode::inference();
  double label_smoothing = 0.0;  ///< in [0, 1)
  std::size_t normalizer = 0;    ///< as in CrossEntropyOptions
};

/// The values that a training step computes, as doubles in row-major order.
struct StepValues {
  double loss;
  std::vector<double> logits;
  std::vector<std::vector<double>> gradients;  ///< one per parameter; empty if it has no gradient
};

std::vector<double> to_doubles(const Tensor& x);

/// The logits of `batch` without dropout, (rows, target length, vocabulary).
Tensor compute_logits(const CheckedModel& model, const Batch& batch);
double compute_loss(const CheckedModel& model, const Batch& batch, const StepOptions& options);

/// Runs forward and backward. Adds to the gradients of the parameters and returns the accumulated
/// gradients.
StepValues run_step(CheckedModel& model, const Batch& batch, const StepOptions& options);

/// Dropout and label smoothing as in the first step of training.
StepOptions training_options(const CheckContext& context);

/// Describes the first value that differs in its bits between two steps of the same model, with
/// both values; nullopt if there is none.
std::optional<std::string> first_difference(const CheckedModel& model, const StepValues& a,
                                            const StepValues& b);

/// The distance of one parameter's gradient from the expected gradient.
struct GradientDistance {
  double relative = 0.0;  ///< |a - b| / max(|b|, 1e-3 times the largest |b|), in L2
  std::string parameter;
};

/// The parameter with the largest distance. The bias of a key projection has gradient 0 up to
/// rounding, since adding a constant to all scores leaves the softmax unchanged; the lower bound of
/// the denominator is for such parameters. NaN counts as infinity, and so does a gradient that only
/// one of the steps has.
GradientDistance largest_distance(const CheckedModel& model, const StepValues& a,
                                  const StepValues& b);

}  // namespace tapestry
