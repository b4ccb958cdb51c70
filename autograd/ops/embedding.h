#pragma once

#include <cstdint>
#include <optional>

#include "autograd/ids.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Looks up a vector for each id: y[r, t] = factor * weight[ids[r, t]].
///
/// weight      (vocabulary, d).
/// ids         (rows, length), each in [0, vocabulary); they need not outlive the call.
/// padding_id  the row of weight that gets no gradient; it is looked up like any other.
/// factor      scale of the vectors, such as sqrt(d) [1].
/// returns     (rows, length, d).
/// throws      ShapeError if weight has not two axes, ValueError if an id is out of range.
///
/// dL/dweight[v] = factor * sum of dL/dy[r, t] over all (r, t) with ids[r, t] = v, in row-major
/// order.
///
/// [1] Vaswani et al. 2017, "Attention is all you need", section 3.4.
Tensor embedding(const Tensor& weight, const Ids& ids,
                 std::optional<std::int32_t> padding_id = std::nullopt, double factor = 1.0);

}  // namespace tapestry
