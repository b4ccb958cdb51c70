#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "autograd/tensor.h"
#include "layers/batch_norm.h"
#include "layers/mode.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

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

/// The normalisation that the options ask for, of token vectors.
///
///   parameters  of LayerNorm, RmsNorm or BatchNorm (d_model)
///   call        x (batch, n, d_model) -> same shape; only batch norm reads `lengths` and
///               `mode`
class Norm {
 public:
  Norm(const Scope& scope, const TransformerOptions& options);
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode) const;

 private:
  std::variant<LayerNorm, RmsNorm, BatchNorm> norm_;
};

}  // namespace tapestry
