// SPDX-License-Identifier: BSD-3-Clause
#include "layers/heads.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/shape_ops.h"

namespace tapestry {
namespace {

void require_lengths(const Shape& shape, std::span<const std::int32_t> lengths) {
  if (!lengths.empty() && lengths.size() != shape[0]) {
    throw ShapeError(fmt::format("pooling: {} lengths for x of shape {}, expected {}",
                                 lengths.size(), to_string(shape), shape[0]));
  }
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    if (lengths[row] >= 1 && static_cast<std::size_t>(lengths[row]) <= shape[1]) continue;
    throw ShapeError(fmt::format("pooling: row {} of x of shape {} has length {}, expected 1 to {}",
                                 row, to_string(shape), lengths[row], shape[1]));
  }
}

/// The weights of mean pooling, (rows, 1, length): 1 / n for the n tokens of a row, 0 for padding.
Tensor mean_weights(const Tensor& x, std::span<const std::int32_t> lengths) {
  const std::size_t rows = x.shape()[0], length = x.shape()[1];
  require_lengths(x.shape(), lengths);
  Tensor weights = Tensor::zeros({rows, 1, length}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const auto values = weights.mutable_values<T>();
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t tokens = lengths.empty() ? length : static_cast<std::size_t>(lengths[row]);
      for (std::size_t i = 0; i < tokens; ++i) {
        values[row * length + i] = static_cast<T>(1.0 / static_cast<double>(tokens));
      }
    }
  });
  return weights;
}

}  // namespace

OutputProjection::OutputProjection(const Scope& scope, std::size_t d_model, std::size_t vocabulary)
    : path_(&scope.path()),
      weight_(
          scope.parameter("weight", {vocabulary, d_model}, glorot_uniform(d_model, vocabulary))),
      bias_(scope.parameter("bias", {vocabulary}, zeros_initializer())) {}

OutputProjection::OutputProjection(const Scope& scope, const Tensor& tied_weight)
    : path_(&scope.path()),
      weight_(tied_weight),
      bias_(scope.parameter("bias", {tied_weight.shape()[0]}, zeros_initializer())) {}

Tensor OutputProjection::logits(const Tensor& x) const {
  const LayerPath here(*path_);
  return linear(x, weight_, bias_);
}

Loss OutputProjection::loss(const Tensor& x, const Ids& labels,
                            const CrossEntropyOptions& options) const {
  const LayerPath here(*path_);
  return linear_cross_entropy(x, weight_, bias_, labels, options);
}

Tensor pool(PoolingKind kind, const Tensor& x, std::span<const std::int32_t> lengths) {
  if (kind == PoolingKind::class_token) return slice(x, 1, 0, 1);
  return matmul(mean_weights(x, lengths), x);
}

ClassificationHead::ClassificationHead(const Scope& scope, std::size_t d_model, std::size_t classes,
                                       PoolingKind pooling)
    : pooling_(pooling), linear_(scope, d_model, classes) {}

Tensor ClassificationHead::features(const Tensor& x, std::span<const std::int32_t> lengths) const {
  return pool(pooling_, x, lengths);
}

Loss ClassificationHead::loss(const Tensor& features, const Ids& labels,
                              const CrossEntropyOptions& options) const {
  return cross_entropy(logits(features), labels, options);
}

}  // namespace tapestry
