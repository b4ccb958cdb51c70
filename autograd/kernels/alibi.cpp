#include "autograd/kernels/alibi.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "autograd/kernels/simd.h"

namespace tapestry::kernels {

double alibi_slope(std::size_t head, std::size_t heads) {
  const std::size_t power = std::bit_floor(heads);
  if (head >= power) return alibi_slope(2 * (head - power), 2 * power);
  return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(power));
}

template <class T>
void subtract_distances(const AttentionProblem& p, const Tile& t, T* s) {
  alignas(64) T lane[lanes<T>];
  std::iota(lane, lane + lanes<T>, T(0));
  const Vec<T> step(static_cast<T>(lanes<T>)), slope(static_cast<T>(-alibi_slope(t.head, p.heads)));
  for (std::size_t r = 0; r < t.rows(); ++r) {
    const auto position = static_cast<T>(t.begin + r + p.n_k) - static_cast<T>(p.n_q);
    Vec<T> ahead = load(lane) - Vec<T>(position - static_cast<T>(t.first_key));
    T* const row = s + r * t.stride();
    for (std::size_t j = 0; j < t.stride(); j += lanes<T>, ahead += step) {
      multiply_add<T>(slope, xsimd::abs(ahead), load(row + j)).store_unaligned(row + j);
    }
  }
}

template void subtract_distances(const AttentionProblem&, const Tile&, float*);
template void subtract_distances(const AttentionProblem&, const Tile&, double*);

}  // namespace tapestry::kernels
