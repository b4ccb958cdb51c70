#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "layers/mode.h"
#include "train/checks/check.h"

/// One training step of a model that is checked, and comparisons of two such steps.
namespace tapestry {

struct StepOptions {
  Mode mode = {};
  double label_smoothing = 0.0;  ///< in [0, 1)
  std::size_t normalizer = 0;    ///< as in CrossEntropyOptions
};

/// What a training step computes, as doubles in row-major order.
struct StepValues {
  double loss;
  std::vector<double> logits;
  std::vector<std::vector<double>> gradients;  ///< one for each parameter; empty if it has none
};

std::vector<double> to_doubles(const Tensor& x);

/// The logits of `batch` without dropout, (rows, target length, vocabulary).
Tensor compute_logits(const CheckedModel& model, const Batch& batch);
double compute_loss(const CheckedModel& model, const Batch& batch, const StepOptions& options);

/// Forward and backward. Adds to the gradients of the parameters and returns their sums so far.
StepValues run_step(CheckedModel& model, const Batch& batch, const StepOptions& options);

/// Dropout and label smoothing as in the first step of training.
StepOptions training_options(const CheckContext& context);

/// The first value in which two steps of one model have different bits, with both values; nullopt
/// if there is none.
std::optional<std::string> first_difference(const CheckedModel& model, const StepValues& a,
                                            const StepValues& b);

/// How far the gradient of one parameter is from the expected one.
struct GradientDistance {
  double relative = 0.0;  ///< |a - b| / max(|b|, a thousandth of the largest |b| of all), in L2
  std::string parameter;
};

/// The parameter with the largest distance. The bias of a key projection has gradient 0 up to
/// rounding, since adding a constant to all scores leaves a softmax unchanged; hence the floor of
/// the denominator. NaN counts as infinity, and so does a gradient that only one step has.
GradientDistance largest_distance(const CheckedModel& model, const StepValues& a,
                                  const StepValues& b);

}  // namespace tapestry
