// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <vector>

#include "layers/model.h"
#include "tests/train/wiring/model_kinds.h"

/// The whole forward computation of a model of any kind, written a second time: composed from
/// elementary operations as the documentation of the options says, without a layer of the library.
namespace tapestry::test {

/// Results of a model for wiring_input().
struct Results {
  std::vector<double> logits;  ///< at the positions that have a label
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;  ///< gradients of all parameters

  bool operator==(const Results&) const = default;
};

/// A float64 model with its initial values.
Model model_of(const KindOptions& options);

/// A model without biases of 0, gains of 1 and initial running moments. Large variances prevent the
/// values of batch norms in inference from growing from layer to layer.
Model perturbed_model(const KindOptions& options);

/// Forward and backward; running averages are deferred.
Results results_of(Model& model, ModelKind kind, const Mode& mode);

/// The results of the second implementation, in inference, with the parameters of `model`.
Results results_of_reference(Model& model, const KindOptions& options);

/// Checks that two results are equal up to rounding.
void check_close(const Results& found, const Results& expected);

/// Checks inference, training without dropout, and the running averages of batch norms after
/// training.
void check_against_reference(const KindOptions& options);

}  // namespace tapestry::test
