#pragma once

#include <cstddef>
#include <string>

#include "autograd/tensor.h"
#include "layers/parameters.h"

namespace tapestry {

/// Root mean square normalisation over the last axis: y = weight * x / sqrt(mean(x^2) + epsilon).
///
///   parameters  weight (n), ones
///   call        x (..., n) -> (..., n)
///   throws      ShapeError if the last axis of x is not n
///
/// The formula and its gradient are in autograd/ops/norms.h.
class RmsNorm {
 public:
  RmsNorm(const Scope& scope, std::size_t n, double epsilon = 1e-5);
  Tensor operator()(const Tensor& x) const;

 private:
  const std::string* path_;
  Tensor weight_;
  double epsilon_;
};

}  // namespace tapestry
