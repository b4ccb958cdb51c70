#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "autograd/ids.h"
#include "autograd/ops/losses.h"
#include "autograd/tensor.h"
#include "layers/embedding.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// From what a decoder gives to scores of tokens, logits = x W^T + b, or right to the loss of them.
///
///   parameters  weight (vocabulary, d_model), Glorot uniform; bias (vocabulary), zeros. With tied
///               embeddings the bias alone: the weight is then the embedding's [1].
///   throws      ShapeError if the last axis of x is not d_model
///
/// [1] Press & Wolf 2017, "Using the Output Embedding to Improve Language Models".
class OutputProjection {
 public:
  OutputProjection(const Scope& scope, TiedEmbeddings tie, const Embedding& embedding);

  /// x (..., d_model) -> (..., vocabulary).
  Tensor logits(const Tensor& x) const;

  /// cross_entropy(logits(x), labels) without the logits ever existing at once; x (rows, length,
  /// d_model), labels (rows, length).
  Loss loss(const Tensor& x, const Ids& labels, const CrossEntropyOptions& options) const;

 private:
  const std::string* path_;
  Tensor weight_, bias_;
};

/// One vector for a whole sequence: that of its first token, which stands for the class [1], or the
/// mean over its tokens.
///
/// x        (rows, length, d_model)
/// lengths  (rows): tokens of each, 1 to length; none if no row has padding
/// returns  (rows, 1, d_model)
/// throws   ShapeError for the mean, if there are lengths and they do not fit x
///
/// [1] Devlin et al. 2019, "BERT", section 3; Dosovitskiy et al. 2021, section 3.1.
Tensor pool(PoolingKind kind, const Tensor& x, std::span<const std::int32_t> lengths);

}  // namespace tapestry
