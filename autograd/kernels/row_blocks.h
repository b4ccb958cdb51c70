#pragma once

#include <algorithm>
#include <cstddef>

namespace tapestry::kernels {

/// Rows in a block: where each column is summed over all rows, the rows of a block are added one
/// after the other, and then the sums of the blocks, in order. It depends on `rows` alone, so the
/// bits do not depend on the number of threads.
inline std::size_t rows_per_block(std::size_t rows) {
  constexpr std::size_t most_blocks = 32;
  return std::max<std::size_t>(16, (rows + most_blocks - 1) / most_blocks);
}

inline std::size_t count_blocks(std::size_t rows) {
  const std::size_t per_block = rows_per_block(rows);
  return (rows + per_block - 1) / per_block;
}

}  // namespace tapestry::kernels
