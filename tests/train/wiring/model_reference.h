// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <vector>

#include "layers/model.h"
#include "tests/train/wiring/model_kinds.h"

/// A second implementation of the forward computation of all kinds of models. It consists of
/// elementary operations, follows the documentation of the options, and uses no layer of the
/// library.
namespace tapestry::test {

/// Results of a model for wiring_input().
struct Results {
  std::vector<double> logits;  ///< only at positions that have a label
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;  ///< gradients of all parameters

  bool operator==(const Results&) const = default;
};

/// A float64 model with its initial values.
Model model_of(const KindOptions& options);

/// A model whose biases, gains and running moments differ from their initial values. Large
/// variances keep the outputs of batch norms from growing from layer to layer in inference.
Model perturbed_model(const KindOptions& options);

/// Runs forward and backward. Does not update running averages.
Results results_of(Model& model, ModelKind kind, const Mode& mode);

/// The results of the second implementation in inference, for the parameters of `model`.
Results results_of_reference(Model& model, const KindOptions& options);

/// Checks that two results are equal up to rounding.
void check_close(const Results& found, const Results& expected);

/// Checks inference, training without dropout, and the running averages of batch norms after
/// training.
void check_against_reference(const KindOptions& options);

}  // namespace tapestry::test
