// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "autograd/ids.h"
#include "autograd/ops/losses.h"
#include "autograd/tensor.h"
#include "layers/basic_layers.h"
#include "layers/parameters.h"

namespace tapestry {

/// The head of a model that predicts tokens: logits = x W^T + b, or their loss.
///
///   parameters  weight (vocabulary, d_model), Glorot uniform; bias (vocabulary), zeros. With a
///               tied weight, such as the matrix of an embedding [1], only the bias
///   throws      ShapeError if the last axis of x is not d_model
///
/// [1] Press & Wolf 2017, "Using the Output Embedding to Improve Language Models".
class OutputProjection {
 public:
  /// Creates the parameters.
  OutputProjection(const Scope& scope, std::size_t d_model, std::size_t vocabulary);
  /// Uses the weight (vocabulary, d_model) of another layer.
  OutputProjection(const Scope& scope, const Tensor& tied_weight);

  /// x (..., d_model) -> (..., vocabulary).
  Tensor logits(const Tensor& x) const;

  /// cross_entropy(logits(x), labels), without storing all logits at once; x (rows, length,
  /// d_model), labels (rows, length).
  Loss loss(const Tensor& x, const Ids& labels, const CrossEntropyOptions& options) const;

 private:
  const std::string* path_;
  Tensor weight_, bias_;
};

/// How a sequence is reduced to one vector: the vector of its first token, the class token [1], or
/// the mean over its tokens.
///
/// [1] Devlin et al. 2019, "BERT", section 3; Dosovitskiy et al. 2021, section 3.1.
enum class PoolingKind {
  class_token,  ///< the vector of the first token
  mean          ///< the mean of the vectors of all tokens except padding
};

/// One vector for each sequence.
///
/// x        (rows, length, d_model)
/// lengths  (rows): number of tokens of each row, 1 to length; empty if no row has padding
/// returns  (rows, 1, d_model)
/// throws   ShapeError for the mean if lengths are given and do not match x
Tensor pool(PoolingKind kind, const Tensor& x, std::span<const std::int32_t> lengths);
/// Overload for lengths in braces: pool(PoolingKind::mean, x, {5, 3}).
inline Tensor pool(PoolingKind kind, const Tensor& x, std::initializer_list<std::int32_t> lengths) {
  return pool(kind, x, std::span(lengths.begin(), lengths.size()));
}

/// The head of a model that predicts the class of a sequence: logits = pool(x) W^T + b, or the
/// loss.
///
///   parameters  weight (classes, d_model), Glorot uniform; bias (classes), zeros
///   throws      ShapeError if the last axis of x is not d_model, and the errors of pool()
class ClassificationHead {
 public:
  ClassificationHead(const Scope& scope, std::size_t d_model, std::size_t classes,
                     PoolingKind pooling = PoolingKind::class_token);  ///< Creates the parameters.

  /// pool() of x (rows, length, d_model) -> (rows, 1, d_model).
  Tensor features(const Tensor& x, std::span<const std::int32_t> lengths) const;
  /// features (..., d_model) -> (..., classes).
  Tensor logits(const Tensor& features) const { return linear_(features); }
  /// cross_entropy(logits(features), labels); features (rows, 1, d_model), labels (rows, 1).
  Loss loss(const Tensor& features, const Ids& labels, const CrossEntropyOptions& options) const;

 private:
  PoolingKind pooling_;
  Linear linear_;
};

}  // namespace tapestry
