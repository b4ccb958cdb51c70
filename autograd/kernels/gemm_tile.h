// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>

#include "autograd/kernels/namespace.h"
#include "autograd/kernels/simd.h"
#include "autograd/kernels/target.h"

/// The innermost part of a matrix product: a tile of the result that is held in registers.
///
/// Every element of a product is one chain of fused multiply-adds along k, in every tile, so that
/// its bits depend only on its row of a, its column of b and k, not on its position or on the
/// number of rows that are computed with it.
namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

/// Rows and columns of the largest tile. Its sums, one row of b and one value of a fill the vector
/// registers: 32 of AVX-512, 16 of AVX2 and SSE2.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr std::size_t tile_height = 12;
#else
inline constexpr std::size_t tile_height = 6;
#endif

inline constexpr std::size_t tile_vectors = 2;
template <class T>
inline constexpr std::size_t tile_width = tile_vectors* lanes<T>;

/// Number of products along k that a tile adds up before it is written to memory: its columns of b
/// and its rows of a then stay in the L1 cache. Results depend on no other block size.
inline constexpr std::size_t k_block = 256;

/// Rows of a: element (i, p) is data[i * row_step + p * k_step]. One of the two steps is 1.
template <class T>
struct TileRows {
  const T* data;
  std::size_t row_step, k_step;
};

/// Columns of b, in whole vectors: row p starts at data[p * k_step].
template <class T>
struct TileColumns {
  const T* data;
  std::size_t k_step;
};

/// Destination of a tile: out = base + scale * sums, with base = out if out.add, plus the bias if
/// any.
template <class T>
struct TileResult {
  Target<T> out;
  std::size_t stride;
  std::size_t columns;  ///< number of remaining columns of the result, at most tile_width
  T scale;
  const T* bias;
};

namespace internal {

/// Stores one vector of sums; handles every combination of bias, addition and row end.
template <class T>
void store_general(const TileResult<T>& r, std::size_t row, std::size_t column,
                   const Vec<T>& sums) {
  if (column >= r.columns) return;
  T* const out = r.out.data + row * r.stride + column;
  const std::size_t n = std::min(lanes<T>, r.columns - column);
  const Vec<T> scale(r.scale);
  Vec<T> value = scale * sums;
  if (r.bias != nullptr && r.out.add) {
    value = multiply_add<T>(scale, sums, load_tail(out, n) + load_tail(r.bias + column, n));
  } else if (r.bias != nullptr) {
    value = multiply_add<T>(scale, sums, load_tail(r.bias + column, n));
  } else if (r.out.add) {
    value = multiply_add<T>(scale, sums, load_tail(out, n));
  }
  store_tail(Target<T>{out}, 0, n, value);
}

/// Stores the sums of a tile, bit-identical to store_general. Not inlined: in measurements, storing
/// directly from the registers took a quarter longer if the rows of the result were a kilobyte
/// apart.
template <std::size_t height, std::size_t vectors, class T>
[[gnu::noinline]] void store_tile(const TileResult<T>& r, const Vec<T> (&sums)[height][vectors]) {
  const Vec<T> scale(r.scale);
  const auto each = [&](const auto& store) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < height; ++i) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v) store(i, v * lanes<T>, sums[i][v]);
    }
  };
  const auto place = [&](std::size_t i, std::size_t j) { return r.out.data + i * r.stride + j; };
  if (r.columns < vectors * lanes<T> || (r.bias != nullptr && r.out.add)) {
    each([&](std::size_t i, std::size_t j, const Vec<T>& s) { store_general(r, i, j, s); });
  } else if (r.out.add) {
    each([&](std::size_t i, std::size_t j, const Vec<T>& s) {
      multiply_add<T>(scale, s, load(place(i, j))).store_unaligned(place(i, j));
    });
  } else if (r.bias != nullptr) {
    each([&](std::size_t i, std::size_t j, const Vec<T>& s) {
      multiply_add<T>(scale, s, load(r.bias + j)).store_unaligned(place(i, j));
    });
  } else {
    each([&](std::size_t i, std::size_t j, const Vec<T>& s) {
      Vec<T>(scale * s).store_unaligned(place(i, j));
    });
  }
}

/// Prefetches the destination of a tile while its sums are computed.
template <std::size_t height, std::size_t vectors, class T>
void prefetch(const TileResult<T>& r) {
#pragma GCC unroll 16
  for (std::size_t i = 0; i < height; ++i) {
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) {
      __builtin_prefetch(r.out.data + i * r.stride + v * lanes<T>, /*for writing*/ 1);
    }
  }
}

template <std::size_t height, std::size_t vectors, bool unit_row_step, class T>
void multiply_tile(std::size_t k, TileRows<T> a, TileColumns<T> b, const TileResult<T>& result) {
  const std::size_t row_step = unit_row_step ? 1 : a.row_step;
  const std::size_t k_step = unit_row_step ? a.k_step : 1;
  prefetch<height, vectors>(result);
  Vec<T> sums[height][vectors];
#pragma GCC unroll 16
  for (auto& row : sums) {
#pragma GCC unroll 4
    for (auto& sum : row) sum = Vec<T>(T(0));
  }
  for (std::size_t p = 0; p < k; ++p, a.data += k_step, b.data += b.k_step) {
    Vec<T> columns[vectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < vectors; ++v) columns[v] = load(b.data + v * lanes<T>);
#pragma GCC unroll 16
    for (std::size_t i = 0; i < height; ++i) {
      const Vec<T> value(a.data[i * row_step]);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v) {
        sums[i][v] = multiply_add<T>(value, columns[v], sums[i][v]);
      }
    }
  }
  store_tile(result, sums);
}

template <std::size_t height, class T>
void select_tile(std::size_t k, const TileRows<T>& a, const TileColumns<T>& b,
                 const TileResult<T>& result) {
  if (result.columns > lanes<T>) {
    return a.row_step == 1 ? multiply_tile<height, tile_vectors, true>(k, a, b, result)
                           : multiply_tile<height, tile_vectors, false>(k, a, b, result);
  }
  return a.row_step == 1 ? multiply_tile<height, 1, true>(k, a, b, result)
                         : multiply_tile<height, 1, false>(k, a, b, result);
}

}  // namespace internal

/// Height of the next tile if `left` rows remain; there is a kernel for each height.
inline std::size_t next_tile_height(std::size_t left) {
  if (left >= tile_height) return tile_height;
  for (const std::size_t height : {8, 4, 2}) {
    if (left >= height) return height;
  }
  return left;
}

/// Computes the tile of `height` rows, chosen by next_tile_height, with k products per element.
template <class T>
void multiply_tile(std::size_t height, std::size_t k, const TileRows<T>& a, const TileColumns<T>& b,
                   const TileResult<T>& result) {
  switch (height) {
    case tile_height:
      return internal::select_tile<tile_height>(k, a, b, result);
    case 8:
      return internal::select_tile<8>(k, a, b, result);
    case 4:
      return internal::select_tile<4>(k, a, b, result);
    case 2:
      return internal::select_tile<2>(k, a, b, result);
    default:
      return internal::select_tile<1>(k, a, b, result);
  }
}

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
