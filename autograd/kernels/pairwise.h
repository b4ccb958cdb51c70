// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/namespace.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

/// Pairwise summation [1] of `n` sums over the rows [begin, end): the rows of a chain are added one
/// after the other, then the sums of the chains two by two, so that the rounding error grows with
/// the length of a chain and the logarithm of the number of chains.
///
/// sums       the n results
/// add_chain  add_chain(first, last, sums) adds the rows [first, last) to n sums; called for one
///            chain after the other, in order
///
/// [1] Higham 1993, "The accuracy of floating point summation".
template <class T, class AddChain>
void sum_pairwise(std::size_t begin, std::size_t end, std::size_t rows_per_chain, std::size_t n,
                  T* sums, const AddChain& add_chain) {
  const std::size_t chains = (end - begin + rows_per_chain - 1) / rows_per_chain;
  if (chains <= 1) {
    std::fill_n(sums, n, T(0));
    return add_chain(begin, end, sums);
  }
  const std::size_t middle = begin + chains / 2 * rows_per_chain;
  const Memory memory(n * sizeof(T));
  T* const upper = reinterpret_cast<T*>(memory.data());
  sum_pairwise(begin, middle, rows_per_chain, n, sums, add_chain);
  sum_pairwise(middle, end, rows_per_chain, n, upper, add_chain);
  map(
      n, Target<T>{sums, true}, [](const Vec<T>& v) { return v; }, static_cast<const T*>(upper));
}

/// Number of rows per block of a sum over all rows, column by column: the rows of a block are added
/// (sum_pairwise), then the sums of the blocks. Depends only on `rows`, so the bits do not depend
/// on the number of threads.
inline std::size_t rows_per_block(std::size_t rows) {
  constexpr std::size_t max_blocks = 32;
  return std::max<std::size_t>(16, (rows + max_blocks - 1) / max_blocks);
}

inline std::size_t count_blocks(std::size_t rows) {
  const std::size_t per_block = rows_per_block(rows);
  return (rows + per_block - 1) / per_block;
}

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
