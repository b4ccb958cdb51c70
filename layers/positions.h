#pragma once

#include <cstddef>
#include <string>

#include "autograd/tensor.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// The sinusoidal table [1], (length, d_model):
///
///     PE(pos, 2i) = sin(pos / 10000^(2i / d_model)),  PE(pos, 2i + 1) = cos(the same).
///
/// [1] Vaswani et al. 2017, section 3.5.
Tensor sinusoidal_positions(std::size_t length, std::size_t d_model, DType dtype);

/// Adds to each token vector the vector of its position. Where positions come in elsewhere or not
/// at all, it changes nothing, but refuses what is too long all the same.
///
///   parameters  learned: weight (max_length, d_model), normal with variance 1 / d_model; else none
///   call        x (batch, length, d_model) -> the same shape
///   throws      ShapeError if x has another shape or length is greater than max_length
class Positions {
 public:
  Positions(const Scope& scope, PositionKind kind, std::size_t max_length, std::size_t d_model);
  Tensor operator()(const Tensor& x) const;

 private:
  const std::string* path_;
  std::size_t max_length_, d_model_;
  Tensor table_;  // (max_length, d_model), absent where nothing is added
};

}  // namespace tapestry
