#include "layers/output_projection.h"

#include "autograd/layer_path.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"

namespace tapestry {

OutputProjection::OutputProjection(const Scope& scope, TiedEmbeddings tie,
                                   const Embedding& embedding)
    : path_(&scope.path()) {
  const std::size_t vocabulary = embedding.weight().shape()[0];
  const std::size_t d_model = embedding.weight().shape()[1];
  weight_ = tie == TiedEmbeddings::none ? scope.parameter("weight", {vocabulary, d_model},
                                                          glorot_uniform(d_model, vocabulary))
                                        : embedding.weight();
  bias_ = scope.parameter("bias", {vocabulary}, zeros_initializer());
}

Tensor OutputProjection::logits(const Tensor& x) const {
  const LayerPath here(*path_);
  return linear(x, weight_, bias_);
}

Loss OutputProjection::loss(const Tensor& x, const Ids& labels,
                            const CrossEntropyOptions& options) const {
  const LayerPath here(*path_);
  return linear_cross_entropy(x, weight_, bias_, labels, options);
}

}  // namespace tapestry
