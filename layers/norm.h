#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "autograd/tensor.h"
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

/// Batch normalisation over the last axis [1]: y = weight * (x - mean) / sqrt(variance + epsilon) +
/// bias, feature by feature.
///
///   parameters  weight (n), ones; bias (n), zeros
///   buffers     running_mean (n), zeros; running_var (n), ones
///   call        x (..., n) -> (..., n); in sentence b of x (batch, length, n), positions from
///               lengths[b] on are padding, without lengths nothing is
///   throws      ShapeError if the last axis of x is not n, or x and lengths do not fit
///
/// Training takes mean and variance over all positions of the batch but padding, which becomes 0:
/// what a position becomes depends on the other rows and on later positions, so a decoder with
/// batch norms is causal in inference only. Inference takes the running ones. A training forward
/// that a tape records moves the running moments towards its own, with a momentum of 0.1: at once,
/// or at Parameters::commit_buffers() if the mode defers averages. The running variance is
/// unbiased, as PyTorch's, and a batch of one vector, which has none, leaves it as it is.
///
/// [1] Ioffe & Szegedy 2015, "Batch Normalization: Accelerating Deep Network Training by Reducing
///     Internal Covariate Shift". The formula and its gradient are in autograd/ops/batch_norm.h.
class BatchNorm {
 public:
  BatchNorm(const Scope& scope, std::size_t n, double epsilon = 1e-5);
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode) const;

 private:
  Tensor train(const Tensor& x, const Mode& mode) const;
  Tensor train_without_padding(const Tensor& x, std::span<const std::int32_t> lengths,
                               const Mode& mode) const;

  const std::string* path_;
  Tensor weight_, bias_;
  RunningAverage running_mean_, running_var_;
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
