#pragma once

#include <string>

#include "autograd/tensor.h"
#include "layers/mode.h"
#include "layers/parameters.h"

namespace tapestry {

/// Dropout: each element becomes 0 with probability `rate`, the others are scaled by 1 / (1 -
/// rate).
///
///   parameters  none
///   call        x (any shape) -> the same shape; inference leaves x as it is
///   throws      ValueError if the rate is outside [0, 1]
///
/// What is dropped depends on the stream and on the layer's path, so two layers told to use one
/// stream drop differently. Srivastava et al. 2014.
class Dropout {
 public:
  Dropout(const Scope& scope, double rate);
  Tensor operator()(const Tensor& x, const Mode& mode) const;
  /// dropout(max(x, 0)), in one pass.
  Tensor after_relu(const Tensor& x, const Mode& mode) const;

 private:
  const std::string* path_;
  double rate_;
};

}  // namespace tapestry
