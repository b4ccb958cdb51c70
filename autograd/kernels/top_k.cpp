#include "autograd/kernels/top_k.h"

#include <algorithm>
#include <limits>

#include "autograd/kernels/simd.h"
#include "autograd/kernels/softmax.h"

namespace tapestry::kernels {
namespace {

/// Inserts x into the first `count` - 1 of `count` values in descending order, behind equal values;
/// the last value is overwritten.
template <class T>
void insert(T x, std::int32_t id, std::size_t count, std::int32_t* ids, T* values) {
  std::size_t i = count - 1;
  for (; i > 0 && values[i - 1] < x; --i) {
    values[i] = values[i - 1];
    ids[i] = ids[i - 1];
  }
  values[i] = x;
  ids[i] = id;
}

}  // namespace

template <class T>
void top_log_softmax_row(std::size_t n, std::size_t k, const T* x, std::int32_t* ids, T* values) {
  constexpr std::size_t block = 64;  // elements that are skipped together
  for (std::size_t j = 0; j < k; ++j)
    insert(x[j], static_cast<std::int32_t>(j), j + 1, ids, values);
  for (std::size_t begin = k; begin < n; begin += block) {
    const std::size_t end = std::min(n, begin + block);
    if (!(max_value(end - begin, x + begin) > values[k - 1])) continue;
    for (std::size_t j = begin; j < end; ++j) {
      if (x[j] > values[k - 1]) insert(x[j], static_cast<std::int32_t>(j), k, ids, values);
    }
  }
  const LogSumExp<T> row = log_sum_exp(n, x);
  const T log_total = row.log_total == -std::numeric_limits<T>::infinity() ? T(0) : row.log_total;
  for (std::size_t i = 0; i < k; ++i) values[i] = (values[i] - row.largest) - log_total;
}

template void top_log_softmax_row(std::size_t, std::size_t, const float*, std::int32_t*, float*);
template void top_log_softmax_row(std::size_t, std::size_t, const double*, std::int32_t*, double*);

}  // namespace tapestry::kernels
