#include "layers/embedding.h"

#include <cmath>

#include "autograd/layer_path.h"
#include "autograd/ops/embedding.h"

namespace tapestry {

Embedding::Embedding(const Scope& scope, std::size_t vocabulary, std::size_t d_model,
                     std::optional<std::int32_t> padding_id)
    : path_(&scope.path()),
      weight_(scope.parameter("weight", {vocabulary, d_model},
                              normal_initializer(1.0 / std::sqrt(static_cast<double>(d_model))))),
      padding_id_(padding_id),
      factor_(std::sqrt(static_cast<double>(d_model))) {}

Tensor Embedding::operator()(const Ids& ids) const {
  const LayerPath here(*path_);
  return embedding(weight_, ids, padding_id_, factor_);
}

}  // namespace tapestry
