// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "autograd/kernels/gemm.h"
#include "autograd/kernels/gemm_tile.h"
#include "autograd/kernels/namespace.h"
#include "autograd/kernels/simd.h"

/// Packing: copies operands into the order in which tiles read them.
namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

namespace internal {

/// Calls body(0), ..., body(n - 1) with compile-time constants, so that arrays indexed only by them
/// can be kept in registers.
template <std::size_t n, class Body>
[[gnu::always_inline]] inline void unrolled(const Body& body) {
  [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
    (body(std::integral_constant<std::size_t, I>{}), ...);
  }
  (std::make_index_sequence<n>{});
}

/// The lower (or upper) halves of two vectors, interleaved.
template <bool upper, class T, std::size_t... I>
[[gnu::always_inline]] inline Vec<T> interleaved(const Vec<T>& a, const Vec<T>& b,
                                                 std::index_sequence<I...>) {
  constexpr int half = lanes<T> / 2;
  constexpr int first = upper ? half : 0;
  using Native [[gnu::vector_size(sizeof(Vec<T>))]] = T;
  return Vec<T>(decltype(a.data)(__builtin_shufflevector(
      Native(a.data), Native(b.data),
      (first + static_cast<int>(I) / 2 + (I % 2 == 1 ? static_cast<int>(lanes<T>) : 0))...)));
}

}  // namespace internal

/// Transposes a square of vectors by log2(lanes) perfect shuffles.
template <class T>
[[gnu::always_inline]] inline void transpose(Vec<T> (&rows)[lanes<T>]) {
  constexpr std::size_t n = lanes<T>;
  constexpr auto indices = std::make_index_sequence<n>{};
#pragma GCC unroll 4
  for (std::size_t round = 1; round < n; round *= 2) {
    Vec<T> next[n];
    internal::unrolled<n / 2>([&](auto i) __attribute__((always_inline)) {
      next[2 * i] = internal::interleaved<false>(rows[i], rows[i + n / 2], indices);
      next[2 * i + 1] = internal::interleaved<true>(rows[i], rows[i + n / 2], indices);
    });
    internal::unrolled<n>([&](auto i) __attribute__((always_inline)) { rows[i] = next[i]; });
  }
}

namespace internal {

/// The block of `height` rows and `width` columns at `data`, transposed and padded with zeros.
template <class T>
[[gnu::always_inline]] inline void load_transposed(const T* data, std::size_t stride,
                                                   std::size_t height, std::size_t width,
                                                   Vec<T> (&square)[lanes<T>]) {
  const auto row = [&](std::size_t i) __attribute__((always_inline)) {
    return width >= lanes<T> ? load(data + i * stride) : load_tail(data + i * stride, width);
  };
  unrolled<lanes<T>>([&](auto i) __attribute__((always_inline)) {
    square[i] = i < height ? row(i) : Vec<T>(T(0));
  });
  transpose(square);
}

/// \overload for `lanes` columns and a constant number of rows.
template <std::size_t height, class T>
[[gnu::always_inline]] inline void load_transposed(const T* data, std::size_t stride,
                                                   Vec<T> (&square)[lanes<T>]) {
  unrolled<lanes<T>>([&](auto i) __attribute__((always_inline)) {
    if constexpr (i < height) {
      square[i] = load(data + i * stride);
    } else {
      square[i] = Vec<T>(T(0));
    }
  });
  transpose(square);
}

/// Prefetches one cache line from each of `count` rows, `offset` after data, which may be beyond
/// the end. Packing reads operands that have left the caches, in more and shorter ranges than the
/// hardware prefetcher recognizes.
template <std::size_t count, class T>
[[gnu::always_inline]] inline void prefetch_lines(const T* data, std::size_t offset,
                                                  std::size_t stride) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  unrolled<count>([&](auto i) __attribute__((always_inline)) {
    const std::uintptr_t line = address + (offset + i * stride) * sizeof(T);
    __builtin_prefetch(reinterpret_cast<const void*>(line));
  });
}

/// Packs `height` values from each of k rows, row by row.
template <std::size_t height, class T>
void pack_strip(const T* in, std::size_t stride, std::size_t k, T* packed) {
  for (std::size_t q = 0; q < k; ++q) {
    __builtin_memcpy(packed + q * height, in + q * stride, height * sizeof(T));
  }
}

template <class T>
void pack_strip(std::size_t height, const T* in, std::size_t stride, std::size_t k, T* packed) {
  switch (height) {
    case tile_height:
      return pack_strip<tile_height>(in, stride, k, packed);
    case 8:
      return pack_strip<8>(in, stride, k, packed);
    case 4:
      return pack_strip<4>(in, stride, k, packed);
    case 2:
      return pack_strip<2>(in, stride, k, packed);
    default:
      return pack_strip<1>(in, stride, k, packed);
  }
}

/// Packs `height` columns.
template <class T>
void pack_transposed_strip(std::size_t height, const T* in, std::size_t stride, std::size_t k,
                           T* packed) {
  constexpr std::size_t squares = (tile_height + lanes<T> - 1) / lanes<T>;
  std::size_t q = 0;
  if constexpr (squares == 1) {
    for (; height == tile_height && q + lanes<T> <= k; q += lanes<T>) {
      prefetch_lines<tile_height>(in, tile_height * stride + q, stride);  // the next strip
      Vec<T> square[lanes<T>];
      load_transposed<tile_height>(in + q, stride, square);
      unrolled<lanes<T>>([&](auto c) __attribute__((always_inline)) {
        square[c].store_unaligned(packed + (q + c) * tile_height);
      });
    }
  }
  for (; q < k; q += lanes<T>) {
    const std::size_t width = std::min(lanes<T>, k - q);
    Vec<T> square[squares][lanes<T>];
    for (std::size_t s = 0, top = 0; top < height; ++s, top += lanes<T>) {
      load_transposed(in + top * stride + q, stride, height - top, width, square[s]);
    }
    // The order matters: the next vector overwrites elements written beyond the end of the strip.
    for (std::size_t c = 0; c < width; ++c) {
      for (std::size_t s = 0, top = 0; top < height; ++s, top += lanes<T>) {
        square[s][c].store_unaligned(packed + (q + c) * height + top);
      }
    }
  }
}

}  // namespace internal

/// Packs the block a[begin..end)[p..p + k), in strips of the height of tiles. A strip of height h
/// that starts at row i is packed[(i - begin) * k + ...] and holds a(i + r, p + q) at [q][r], with
/// h elements for each q. May write up to one vector past the end.
template <class T>
void pack_rows(const Operand<T>& a, std::size_t begin, std::size_t end, std::size_t p,
               std::size_t k, T* packed) {
  // Strips of a transposed operand are adjacent. Reading a few of its rows at a time, over all
  // strips, touches few pages.
  const std::size_t step = a.transposed ? 16 : k;
  for (std::size_t q = 0; q < k; q += step) {
    const std::size_t count = std::min(step, k - q);
    for (std::size_t i = begin; i < end;) {
      const std::size_t height = next_tile_height(end - i);
      T* const strip = packed + (i - begin) * k + q * height;
      if (a.transposed) {
        internal::pack_strip(height, a.data + (p + q) * a.stride + i, a.stride, count, strip);
      } else {
        internal::pack_transposed_strip(height, a.data + i * a.stride + p, a.stride, count, strip);
      }
      i += height;
    }
  }
}

/// Packs the rows [begin, end) of b (k, n), not transposed, from column `first` on, in panels of
/// tile_width columns: packed[panel][p][lane] = b(p, first + panel * tile_width + lane), with zeros
/// in the columns that the last panel lacks. Each pass reads 1 KiB of every row: one panel per pass
/// would touch two cache lines per row.
template <class T>
void pack_columns(const Operand<T>& b, std::size_t first, std::size_t n, std::size_t k,
                  std::size_t begin, std::size_t end, T* packed) {
  constexpr std::size_t width = tile_width<T>;
  constexpr std::size_t group = 1024 / (width * sizeof(T)) * width;
  for (std::size_t left = first; left < n; left += group) {
    const std::size_t right = std::min(n, left + group);
    for (std::size_t p = begin; p < end; ++p) {
      const T* in = b.data + p * b.stride;
      T* out = packed + (left - first) * k + p * width;
      for (std::size_t j = left; j < right; j += width, out += width * k) {
        internal::prefetch_lines<tile_vectors>(in, 4 * b.stride + j, lanes<T>);
        if (right - j < width) {
          std::fill(std::copy_n(in + j, right - j, out), out + width, T(0));
        } else {
          for (std::size_t v = 0; v < width; v += lanes<T>) load(in + j + v).store_aligned(out + v);
        }
      }
    }
  }
}

/// Packs one panel of a transposed b (k, n): packed[p][lane] = b(p, j + lane) for lane < columns.
/// Vectors without a column are not written, because no tile reads them.
template <class T>
void pack_transposed_panel(const Operand<T>& b, std::size_t j, std::size_t columns, std::size_t k,
                           T* packed) {
  constexpr std::size_t width = tile_width<T>;
  for (std::size_t left = 0; left < columns; left += lanes<T>) {
    const std::size_t height = std::min(lanes<T>, columns - left);
    const T* in = b.data + (j + left) * b.stride;
    std::size_t p = 0;
    for (; height == lanes<T> && p + lanes<T> <= k; p += lanes<T>) {
      internal::prefetch_lines<lanes<T>>(in, p + 4 * lanes<T>, b.stride);
      Vec<T> square[lanes<T>];
      internal::load_transposed<lanes<T>>(in + p, b.stride, square);
      internal::unrolled<lanes<T>>([&](auto c) __attribute__((always_inline)) {
        square[c].store_aligned(packed + (p + c) * width + left);
      });
    }
    for (; p < k; p += lanes<T>) {
      const std::size_t count = std::min(lanes<T>, k - p);
      Vec<T> square[lanes<T>];
      internal::load_transposed(in + p, b.stride, height, count, square);
      internal::unrolled<lanes<T>>([&](auto c) __attribute__((always_inline)) {
        if (c < count) square[c].store_aligned(packed + (p + c) * width + left);
      });
    }
  }
}

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
