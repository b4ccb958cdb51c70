// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <vector>

#include "autograd/error.h"
#include "autograd/tape.h"

namespace tapestry {

/// Thrown when a value or a gradient is NaN or infinite.
class AnomalyError : public Error {
 public:
  using Error::Error;
};

/// A tape observer that finds the origin of NaN or infinity: it throws at the first operation whose
/// output, or whose contribution to the gradient of an input, is not finite.
///
///     AnomalyDetector detector;
///     Tape tape(&detector);
///
/// It checks every value and keeps the inputs of every operation until it is destroyed, which costs
/// time and memory; use it for debugging. A detector can be used with one tape only.
///
/// throws  AnomalyError with the layer path, the operation, the position and the range of each
///         input; thrown by the operation or by Tape::backward.
class AnomalyDetector final : public TapeObserver {
 public:
  void forward_ran(const RecordedCall& call) override;
  void backward_ran(const GradientSlot& output, const Tensor& dy) override;

  /// Time spent in the checks.
  std::chrono::steady_clock::duration time() const { return time_; }

 private:
  struct Call {
    const char* operation;
    const GradientSlot* output;  ///< identifies the call during the lifetime of the tape
    std::vector<Tensor> inputs;
  };

  std::vector<Call> calls_;
  std::chrono::steady_clock::duration time_{};
};

}  // namespace tapestry
