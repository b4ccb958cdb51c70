#pragma once

#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/tape_observer.h"

namespace tapestry {

/// A value or a gradient that is NaN or infinite.
class AnomalyError : public Error {
 public:
  using Error::Error;
};

/// Finds where NaN or infinity comes from: an observer for a tape that stops at the first operation
/// with such a value in its output, or in a gradient that it hands to one of its inputs.
///
///     AnomalyDetector detector;
///     Tape tape(&detector);
///
/// Every value is looked at and the inputs of every operation are kept until the detector is gone,
/// which costs time and memory: it is for finding a mistake. One detector serves one tape.
///
/// throws  AnomalyError with the layer path, the operation, the place and the range of each input,
///         out of the operation or out of Tape::backward.
class AnomalyDetector final : public TapeObserver {
 public:
  void forward_ran(const RecordedCall& call) override;
  void backward_ran(const GradientSlot& output, const Tensor& dy) override;

 private:
  struct Call {
    const char* operation;
    const GradientSlot* output;  ///< tells calls apart while the tape lives
    std::vector<Tensor> inputs;
  };

  std::vector<Call> calls_;
};

}  // namespace tapestry
