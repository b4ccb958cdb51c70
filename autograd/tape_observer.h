#pragma once

#include <functional>
#include <span>
#include <string>

#include "autograd/tensor.h"

namespace tapestry {

/// One operation as a tape has recorded it.
struct RecordedCall {
  const char* operation;
  const std::string* layer_path;   ///< lives as long as the program
  std::span<const Tensor> inputs;  ///< absent ones are no tensors
  const Tensor& output;
  /// Applies an operation with the same attributes to other inputs of the same shapes, as often as
  /// one likes. Empty if the operation cannot be copied.
  std::function<Tensor(std::span<const Tensor>)> again;
};

/// Watches the operations of a tape that was made with it. What it does itself is not recorded;
/// what it throws ends the forward or backward pass.
class TapeObserver {
 public:
  virtual ~TapeObserver() = default;
  virtual void forward_ran(const RecordedCall& call) = 0;
  /// The record whose output has this slot has passed `dy`, the gradient of its output, on to its
  /// inputs.
  virtual void backward_ran(const GradientSlot& output, const Tensor& dy) = 0;
};

}  // namespace tapestry
