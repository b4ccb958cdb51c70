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
///   call        x (..., n) -> (..., n). With `lengths`, x is (batch, length, n) and the positions
///   of
///               sentence b from lengths[b] on are padding; without, no position is
///   throws      ShapeError if the last axis of x is not n, or x and lengths do not fit
///
/// Training computes mean and variance over all positions of the batch except padding, and padding
/// becomes 0. The output at one position then depends on the other sentences and on later
/// positions: a decoder with batch norms is causal in inference only. Inference uses the running
/// moments. A training forward that a tape records updates them with momentum 0.1: at once, or at
/// Parameters::commit_buffers() if the mode defers averages. The running variance is unbiased, as
/// PyTorch's; a batch of one vector has no unbiased variance and leaves it unchanged.
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

/// Layer norm [1] and RMS norm [2] use the moments of each token vector. Batch norm [3] uses the
/// moments of each feature over the batch, as convolutional networks do; language models learn less
/// well with it [4].
///
/// [1] Ba, Kiros & Hinton 2016, "Layer Normalization".
/// [2] Zhang & Sennrich 2019, "Root Mean Square Layer Normalization".
/// [3] Ioffe & Szegedy 2015, "Batch Normalization".
/// [4] Shen et al. 2020, "PowerNorm: Rethinking Batch Normalization in Transformers".
enum class Normalization { layer_norm, rms_norm, batch_norm };

struct NormOptions {
  Normalization kind = Normalization::layer_norm;
  double epsilon = 1e-5;  ///< > 0; added to the variance or mean square, inside the root
};

/// Normalisation of token vectors, of the kind that the options name.
///
///   parameters  of LayerNorm, RmsNorm or BatchNorm (d_model)
///   call        x (batch, n, d_model) -> same shape; `lengths` and `mode` matter to batch norm
///               alone, as there
///   throws      as the norm of that kind
class Norm {
 public:
  Norm(const Scope& scope, std::size_t d_model, const NormOptions& options = {});
  Tensor operator()(const Tensor& x, std::span<const std::int32_t> lengths, const Mode& mode) const;

 private:
  std::variant<LayerNorm, RmsNorm, BatchNorm> norm_;
};

}  // namespace tapestry
