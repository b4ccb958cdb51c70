#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "autograd/ids.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Looks up a vector for each id: y[i] = scale * weight[ids[i]], for each index i of ids.
///
/// weight      (vocabulary, d).
/// ids         (...), each in [0, vocabulary); they need not outlive the call.
/// padding_id  row of weight without a gradient; it is looked up like any other row.
/// scale       of the vectors, such as sqrt(d) [1].
/// returns     (..., d).
/// throws      ShapeError if weight does not have two axes, ValueError if an id is out of range.
///
/// dL/dweight[v] = scale * sum of dL/dy[i] over all i with ids[i] = v, in row-major order.
///
/// [1] Vaswani et al. 2017, "Attention is all you need", section 3.4.
Tensor embedding(const Tensor& weight, const Ids& ids,
                 std::optional<std::int32_t> padding_id = std::nullopt, double scale = 1.0);

}  // namespace tapestry
