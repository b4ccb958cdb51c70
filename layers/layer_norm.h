#pragma once

#include <cstddef>
#include <string>

#include "autograd/tensor.h"
#include "layers/parameters.h"

namespace tapestry {

/// Layer normalisation over the last axis: y = weight * (x - mean) / sqrt(variance + epsilon) +
/// bias.
///
///   parameters  weight (n), ones; bias (n), zeros
///   call        x (..., n) -> (..., n)
///   throws      ShapeError if the last axis of x is not n
///
/// The formula and its gradient are in autograd/ops/norms.h.
class LayerNorm {
 public:
  LayerNorm(const Scope& scope, std::size_t n, double epsilon = 1e-5);
  Tensor operator()(const Tensor& x) const;

 private:
  const std::string* path_;
  Tensor weight_, bias_;
  double epsilon_;
};

}  // namespace tapestry
