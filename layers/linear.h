#pragma once

#include <cstddef>
#include <string>

#include "autograd/tensor.h"
#include "layers/parameters.h"

namespace tapestry {

/// Affine map of the last axis: y = x W^T + b.
///
///   parameters  weight (out, in), Glorot uniform [1]; bias (out), zeros
///   call        x (..., in) -> (..., out)
///   throws      ShapeError if the last axis of x is not `in`
///
/// [1] Glorot & Bengio 2010, eq. 16.
class Linear {
 public:
  Linear(const Scope& scope, std::size_t in, std::size_t out);
  Tensor operator()(const Tensor& x) const;

 private:
  const std::string* path_;
  Tensor weight_, bias_;
};

}  // namespace tapestry
