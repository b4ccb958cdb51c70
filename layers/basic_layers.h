#pragma once

#include <cstddef>
#include <string>

#include "autograd/tensor.h"
#include "layers/mode.h"
#include "layers/parameters.h"

namespace tapestry {

struct LinearOptions {
  bool bias = true;  ///< without it, y = x W^T
};

/// Affine map of the last axis: y = x W^T + b.
///
///   parameters  weight (out, in), Glorot uniform [1]; bias (out), zeros, unless bias is false
///   call        x (..., in) -> (..., out)
///   throws      ShapeError if the last axis of x is not `in`
///
/// [1] Glorot & Bengio 2010, eq. 16.
class Linear {
 public:
  Linear(const Scope& scope, std::size_t in, std::size_t out, const LinearOptions& options = {});
  Tensor operator()(const Tensor& x) const;

 private:
  const std::string* path_;
  Tensor weight_, bias_;  // bias_ may be absent
};

/// Dropout [1]: in training each element becomes 0 with probability `rate`, and the others are
/// multiplied by 1 / (1 - rate); inference returns x.
///
///   parameters  none
///   call        x (any shape) -> the same shape
///   throws      ValueError if the rate is outside [0, 1]
///
/// The dropped elements depend on the mode's random stream and on the path of the layer, so two
/// layers called with the same stream drop different elements.
///
/// [1] Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting".
class Dropout {
 public:
  Dropout(const Scope& scope, double rate);
  Tensor operator()(const Tensor& x, const Mode& mode) const;
  /// dropout(max(x, 0)), in one pass over memory.
  Tensor after_relu(const Tensor& x, const Mode& mode) const;

 private:
  const std::string* path_;
  double rate_;
};

}  // namespace tapestry
