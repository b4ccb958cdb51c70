#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "autograd/tensor.h"
#include "layers/mode.h"
#include "layers/parameters.h"

namespace tapestry {

/// Layer normalization over the last axis: y = weight * (x - mean) / sqrt(variance + epsilon) +
/// bias.
///
///   parameters  weight (n), ones; bias (n), zeros
///   call        x (..., n) -> (..., n)
///   throws      ShapeError if the last axis of x is not n
///
/// The formula and its gradient are in autograd/ops/norms.h.
class LayerNorm {
 public:
  LayerNorm(const Scope& scope, std::size_t n, double epsilon = 1e-5);  ///< Creates the parameters.
  Tensor operator()(const Tensor& x) const;  ///< x (..., n) -> (..., n)

 private:
  const std::string* path_;
  Tensor weight_, bias_;
  double epsilon_;
};

/// Root mean square normalization over the last axis: y = weight * x / sqrt(mean(x^2) + epsilon).
///
///   parameters  weight (n), ones
///   call        x (..., n) -> (..., n)
///   throws      ShapeError if the last axis of x is not n
///
/// The formula and its gradient are in autograd/ops/norms.h.
class RmsNorm {
 public:
  RmsNorm(const Scope& scope, std::size_t n, double epsilon = 1e-5);  ///< Creates the parameters.
  Tensor operator()(const Tensor& x) const;  ///< x (..., n) -> (..., n)

 private:
  const std::string* path_;
  Tensor weight_;
  double epsilon_;
};

/// Batch normalization over the last axis [1]: y = weight * (x - mean) / sqrt(variance + epsilon) +
/// bias, feature by feature.
///
///   parameters  weight (n), ones; bias (n), zeros
///   buffers     running_mean (n), zeros; running_var (n), ones
///   call        x (..., n) -> (..., n). With `lengths`, x is (batch, length, n) and the positions
///               of sentence b from lengths[b] on are padding; without, there is no padding
///   throws      ShapeError if the last axis of x is not n, or if x and lengths do not match
///
/// Training computes mean and variance over all positions of the batch except padding; padding
/// becomes 0. The output at a position therefore depends on the other sentences and on later
/// positions: a decoder with batch norms is causal only in inference. Inference uses the running
/// mean and variance. A training forward that a tape records updates them with momentum 0.1:
/// immediately, or in Parameters::commit_buffers() if the mode defers averages. The running
/// variance is unbiased, as in PyTorch; a batch with a single vector has no unbiased variance and
/// leaves it unchanged.
///
/// [1] Ioffe & Szegedy 2015, "Batch Normalization: Accelerating Deep Network Training by Reducing
///     Internal Covariate Shift". The formula and its gradient are in autograd/ops/norms.h.
class BatchNorm {
 public:
  BatchNorm(const Scope& scope, std::size_t n, double epsilon = 1e-5);  ///< Creates the parameters.
  /// x (..., n) -> (..., n); with `lengths`, x (batch, length, n).
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode) const;
  /// Without padding, and with any leading axes: x (..., n) -> (..., n).
  Tensor operator()(const Tensor& x, const Mode& mode) const { return (*this)(x, {}, mode); }

 private:
  Tensor train(const Tensor& x, const Mode& mode) const;
  Tensor train_without_padding(const Tensor& x, std::span<const std::int32_t> lengths,
                               const Mode& mode) const;

  const std::string* path_;
  Tensor weight_, bias_;
  RunningAverage running_mean_, running_var_;
  double epsilon_;
};

/// The kind of a norm. Layer norm [1] and RMS norm [2] use statistics of each token vector. Batch
/// norm [3] uses statistics of each feature over the batch, as in convolutional networks; language
/// models perform worse with it [4].
///
/// [1] Ba, Kiros & Hinton 2016, "Layer Normalization".
/// [2] Zhang & Sennrich 2019, "Root Mean Square Layer Normalization".
/// [3] Ioffe & Szegedy 2015, "Batch Normalization".
/// [4] Shen et al. 2020, "PowerNorm: Rethinking Batch Normalization in Transformers".
enum class Normalization {
  layer_norm,  ///< LayerNorm
  rms_norm,    ///< RmsNorm
  batch_norm   ///< BatchNorm
};

/// Options of Norm. The member initializers are the defaults.
struct NormOptions {
  Normalization kind = Normalization::layer_norm;  ///< which norm
  double epsilon = 1e-5;  ///< > 0; added to the variance or mean square, inside the square root
};

/// Normalization of token vectors, of the kind given by the options.
///
///   parameters  those of LayerNorm, RmsNorm or BatchNorm (d_model)
///   call        x (batch, n, d_model) -> same shape; only batch norm uses `lengths` and `mode`
///   throws      as the norm of that kind
class Norm {
 public:
  /// Creates the parameters.
  Norm(const Scope& scope, std::size_t d_model, const NormOptions& options = {});
  /// x (batch, n, d_model) -> same shape; only batch norm uses `lengths` and `mode`
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode) const;

 private:
  std::variant<LayerNorm, RmsNorm, BatchNorm> norm_;
};

}  // namespace tapestry
