#pragma once

#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/tape.h"

namespace tapestry {

/// A value or a gradient that is NaN or infinite.
class AnomalyError : public Error {
 public:
  using Error::Error;
};

/// Finds the source of NaN or infinity: an observer for a tape that stops at the first operation
/// with such a value in its output, or in a gradient that it contributes to one of its inputs.
///
///     AnomalyDetector detector;
///     Tape tape(&detector);
///
/// It examines every value and keeps the inputs of every operation until it is destroyed, which
/// costs time and memory: it is for debugging. One detector serves one tape.
///
/// throws  AnomalyError with the layer path, the operation, the position and the range of each
///         input, from the operation or from Tape::backward.
class AnomalyDetector final : public TapeObserver {
 public:
  void forward_ran(const RecordedCall& call) override;
  void backward_ran(const GradientSlot& output, const Tensor& dy) override;

 private:
  struct Call {
    const char* operation;
    const GradientSlot* output;  ///< identifies the call while the tape lives
    std::vector<Tensor> inputs;
  };

  std::vector<Call> calls_;
};

}  // namespace tapestry
