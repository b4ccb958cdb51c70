#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "autograd/ids.h"
#include "autograd/named_tensor.h"
#include "autograd/ops/cross_entropy.h"
#include "autograd/random.h"
#include "autograd/tensor.h"
#include "layers/network.h"
#include "train/model.h"

namespace tapestry {

/// A model as the properties see it, cut where they look in. The functions are apart from each
/// other so that a test can put a broken one in the place of any of them.
struct ExaminedModel {
  std::vector<NamedTensor> parameters;

  /// A random stream turns dropout on.
  std::function<TokenVectors(const NetworkInput& input, const RandomStream& random)> embed;
  /// (rows, labels a row, vocabulary or classes); of the tokens in `input` the lengths alone count.
  std::function<Tensor(const TokenVectors& vectors, const NetworkInput& input,
                       const RandomStream& random)>
      logits;
  /// A scalar, as cross_entropy().
  std::function<Tensor(const Tensor& logits, const Ids& labels, const CrossEntropyOptions& options)>
      loss;

  DType dtype() const { return parameters.front().tensor.dtype(); }
  void clear_gradients();
};

/// The functions of `model`, which they keep alive.
ExaminedModel examined(std::shared_ptr<const Model> model);

}  // namespace tapestry
