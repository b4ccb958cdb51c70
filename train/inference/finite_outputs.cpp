// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/finite_outputs.h"

#include <fmt/format.h>

#include <string_view>

#include "autograd/anomaly.h"
#include "autograd/tape.h"
#include "train/base/error.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {

void reject_non_finite(const Network& network, const NetworkInput& input, const std::string& place,
                       const std::string& hint) {
  std::string first;
  try {
    AnomalyDetector detector;
    const Tape tape(&detector);
    network(input, Mode::inference());
  } catch (const AnomalyError& error) {
    const std::string_view origin = error.what();  // the text ends with long ranges of the inputs
    first =
        fmt::format("; first in {}", origin.substr(0, origin.find(", expected finite numbers")));
  }
  throw NumericError(
      fmt::format("{}: found NaN or infinity in the model's output, expected finite numbers{}",
                  place, first),
      hint);
}

void reject_non_finite(const Model& model, const Batch& batch, const std::string& place,
                       const std::string& hint) {
  reject_non_finite(*model.network, network_input(batch, model.parameters.dtype()), place, hint);
}

}  // namespace tapestry
