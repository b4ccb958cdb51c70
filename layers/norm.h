// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "autograd/tensor.h"
#include "layers/basic_layers.h"
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
  Tensor operator()(const Tensor& x) const;                             ///< x (..., n) -> (..., n)

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
  Tensor operator()(const Tensor& x) const;                           ///< x (..., n) -> (..., n)

 private:
  const std::string* path_;
  Tensor weight_;
  double epsilon_;
};

/// Batch normalization over the last axis [1]: y = weight * (x - mean) / sqrt(variance + epsilon) +
/// bias, for each feature.
///
///   parameters  weight (n), ones; bias (n), zeros
///   buffers     running_mean (n), zeros; running_var (n), ones
///   call        x (..., n) -> (..., n). With `lengths`, x is (batch, length, n) and the positions
///               of sentence b from lengths[b] on are padding; without `lengths`, there is no
///               padding
///   throws      ShapeError if the last axis of x is not n, or if x and lengths do not match
///
/// Training computes mean and variance over all positions of the batch except padding; padding
/// becomes 0. The output at a position therefore depends on the other sentences and on later
/// positions: a decoder with batch norms is causal only in inference. Inference uses the running
/// mean and variance. A forward pass in training that a tape records updates the running mean and
/// variance with momentum 0.1: immediately, or in Parameters::commit_buffers() if the mode defers
/// averages. The running variance is unbiased, as in PyTorch; a batch with a single vector has no
/// unbiased variance and leaves the running variance unchanged.
///
/// [1] Ioffe & Szegedy 2015, "Batch Normalization: Accelerating Deep Network Training by Reducing
///     Internal Covariate Shift". The formula and its gradient are in autograd/ops/norms.h.
class BatchNorm {
 public:
  BatchNorm(const Scope& scope, std::size_t n, double epsilon = 1e-5);  ///< Creates the parameters.
  /// x (..., n) -> (..., n); with `lengths`, x (batch, length, n).
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode) const;
  /// For x without padding and with any leading axes: x (..., n) -> (..., n).
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
  Normalization kind = Normalization::layer_norm;  ///< layer norm, RMS norm or batch norm
  double epsilon = 1e-5;  ///< > 0; added to the variance or mean square, inside the square root
};

/// Normalization of token vectors, of the kind given by the options.
///
///   parameters  the parameters of LayerNorm, RmsNorm or BatchNorm (d_model)
///   call        x (batch, n, d_model) -> same shape; only batch norm uses `lengths` and `mode`
///   throws      the errors of the norm of that kind
class Norm {
 public:
  /// Creates the parameters.
  Norm(const Scope& scope, std::size_t d_model, const NormOptions& options = {});
  /// x (batch, n, d_model) -> same shape; only batch norm uses `lengths` and `mode`
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode) const;

 private:
  std::variant<LayerNorm, RmsNorm, BatchNorm> norm_;
};

/// Where a residual block normalizes: before its sublayer [1] or after the addition [2].
///
/// [1] Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture".
/// [2] Vaswani et al. 2017, "Attention Is All You Need", section 5.4.
enum class NormPlacement {
  pre,  ///< x + f(norm(x))
  post  ///< norm(x + f(x))
};

/// Options of Residual. The member initializers are the defaults.
struct ResidualOptions {
  NormPlacement placement = NormPlacement::pre;  ///< position of the norm
  NormOptions norm{};                            ///< options of the norm
  double dropout = 0.0;           ///< dropout rate of the sublayer's output, in [0, 1]
  double stochastic_depth = 0.0;  ///< rate at which batch rows skip the sublayer, in [0, 1]
  double skip_scale = 1.0;        ///< factor of the input in the sum
  double sublayer_scale = 1.0;    ///< factor of the sublayer's output in the sum
};

/// The options of a block in layer `layer`, counted from 1, of a stack. `options` are the options
/// of the last layer. The rate of stochastic depth grows linearly with the depth: rate * layer /
/// num_layers [1].
///
/// [1] Huang et al. 2016, "Deep Networks with Stochastic Depth", eq. 4.
ResidualOptions at_depth(ResidualOptions options, std::size_t layer, std::size_t num_layers);

/// A residual connection around a sublayer f [1]:
///
///     pre   a x + b k dropout(f(norm(x)))
///     post  norm(a x + b k dropout(f(x)))
///
/// where a is skip_scale and b is sublayer_scale. k is 1 without stochastic depth [2]. With
/// stochastic depth of rate p, in training, k is 0 with probability p and 1 / (1 - p) otherwise,
/// drawn for each row of the batch.
///
///   parameters  norm: Norm
///   call        x (batch, n, d_model), f: Tensor -> Tensor of equal shape -> same shape; `lengths`
///               as for Norm
///   throws      ShapeError if the last axis of x is not d_model or f changes the shape; ValueError
///               if a rate is outside [0, 1]
///
/// [1] He et al. 2016, "Deep Residual Learning for Image Recognition".
/// [2] Huang et al. 2016, "Deep Networks with Stochastic Depth".
class Residual {
 public:
  /// Creates the parameters.
  Residual(const Scope& scope, std::size_t d_model, const ResidualOptions& options = {});

  /// x (batch, n, d_model) -> the same shape.
  template <class Sublayer>
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode,
                    const Sublayer& f) const {
    if (options_.placement == NormPlacement::pre) return sum(x, f(norm_(x, lengths, mode)), mode);
    return norm_(sum(x, f(x), mode), lengths, mode);
  }

 private:
  /// a x + b k dropout(y).
  Tensor sum(const Tensor& x, const Tensor& y, const Mode& mode) const;

  ResidualOptions options_;
  Norm norm_;
  const std::string *dropout_path_, *depth_path_;
};

}  // namespace tapestry
