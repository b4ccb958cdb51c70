#pragma once

#include <cstddef>
#include <string>

#include "autograd/tensor.h"
#include "layers/basic_layers.h"
#include "layers/mode.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// Position-wise feed-forward network [1]: linear2(dropout(activation(linear1(x)))).
///
///   parameters  linear1: Linear (d_model -> d_ff); linear2: Linear (d_ff -> d_model). With a gated
///               activation [2] linear1 is (d_model -> 2 d_ff): d_ff values, then their gates
///   call        x (..., d_model) -> (..., d_model)
///   throws      ShapeError if the last axis of x is not d_model
///
/// [1] Vaswani et al. 2017, section 3.3, eq. 2.
/// [2] Shazeer 2020, eq. 6, with biases as the others.
class FeedForward {
 public:
  FeedForward(const Scope& scope, std::size_t d_model, std::size_t d_ff, Activation activation,
              double dropout);
  Tensor operator()(const Tensor& x, const Mode& mode) const;

 private:
  const std::string* path_;
  Linear linear1_, linear2_;
  Activation activation_;
  Dropout dropout_;
};

}  // namespace tapestry
