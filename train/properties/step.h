#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "autograd/random.h"
#include "data/batch.h"
#include "train/properties/property.h"

namespace tapestry {

struct StepOptions {
  RandomStream random = {};      ///< of dropout; off without one
  double label_smoothing = 0.0;  ///< in [0, 1)
  std::size_t normalizer = 0;    ///< as in CrossEntropyOptions
};

/// What a training step computes, as doubles in row-major order.
struct Step {
  double loss;
  std::vector<double> logits;
  std::vector<std::vector<double>> gradients;  ///< of each parameter; empty if there is none
};

std::vector<double> values_of(const Tensor& x);

/// The logits of `batch` without dropout, (rows, target length, vocabulary).
Tensor logits_of(const ExaminedModel& model, const Batch& batch);
double loss_of(const ExaminedModel& model, const Batch& batch, const StepOptions& options);

/// Forward and backward; adds to the gradients of the parameters and returns their sums so far.
Step run_step(ExaminedModel& model, const Batch& batch, const StepOptions& options);

/// The dropout and smoothing of the first step of a training.
StepOptions training_options(const Subject& subject);

/// Where two steps of one model have different bits, with both values; none if nowhere.
std::optional<std::string> first_difference(const ExaminedModel& model, const Step& a,
                                            const Step& b);

}  // namespace tapestry
