#pragma once

#include <cstddef>
#include <cstdint>

namespace tapestry::kernels {

/// The k largest elements of log_softmax_row() of one row x of n logits, in descending order, equal
/// ones in the order of their ids, k <= n. NaN is never larger than anything.
///
/// ids     output: k ids
/// values  output: k log-probabilities; the same bits as log_softmax_row() gives
template <class T>
void top_log_softmax_row(std::size_t n, std::size_t k, const T* x, std::int32_t* ids, T* values);

}  // namespace tapestry::kernels
