#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "autograd/ids.h"
#include "autograd/tensor.h"
#include "layers/parameters.h"

namespace tapestry {

/// Token vectors: y = sqrt(d_model) * weight[id] [1].
///
///   parameters  weight (vocabulary, d_model), normal with variance 1 / d_model
///   call        ids (rows, length) -> (rows, length, d_model)
///   throws      ValueError for an id outside the vocabulary
///
/// The row of `padding_id` gets no gradient.
///
/// [1] Vaswani et al. 2017, section 3.4.
class Embedding {
 public:
  Embedding(const Scope& scope, std::size_t vocabulary, std::size_t d_model,
            std::optional<std::int32_t> padding_id);
  Tensor operator()(const Ids& ids) const;
  /// (vocabulary, d_model), for an output projection that shares it.
  const Tensor& weight() const { return weight_; }

 private:
  const std::string* path_;
  Tensor weight_;
  std::optional<std::int32_t> padding_id_;
  double factor_;
};

}  // namespace tapestry
