#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// Iteration over a row-major result and two row-major operands that broadcast to it. Axes of
/// extent 1 are dropped, and adjacent axes are merged if the strides of both operands allow it. The
/// last axis is processed in vectors; the stride of an operand there is 1, or 0 where it repeats.
struct BroadcastPlan {
  static constexpr std::size_t max_axes = 8;

  std::size_t axes = 0;  ///< >= 1
  std::array<std::size_t, max_axes> extents{};
  std::array<std::size_t, max_axes> a_strides{};
  std::array<std::size_t, max_axes> b_strides{};

  /// Extents of a and b with leading 1s added up to the rank of the result.
  BroadcastPlan(std::span<const std::size_t> result, std::span<const std::size_t> a,
                std::span<const std::size_t> b);

  std::size_t row_length() const { return extents[axes - 1]; }
  std::size_t rows() const;
  /// Where row `row` of the result starts in a and in b.
  std::array<std::size_t, 2> row_offsets(std::size_t row) const;
};

/// out[i] = f(a[i], b[i]) for i < n, where an operand of stride 0 repeats its one value.
template <class T, class F>
void broadcast_row(std::size_t n, T* out, const F& f, const T* a, std::size_t a_stride, const T* b,
                   std::size_t b_stride) {
  const Target<T> target{out};
  if (a_stride == 0) {
    map(
        n, target, [&, va = Vec<T>(a[0])](const Vec<T>& vb) { return f(va, vb); }, b);
  } else if (b_stride == 0) {
    map(
        n, target, [&, vb = Vec<T>(b[0])](const Vec<T>& va) { return f(va, vb); }, a);
  } else {
    map(n, target, f, a, b);
  }
}

/// out = f(a, b), element by element; f takes and returns vectors.
template <class T, class F>
void broadcast_map(const BroadcastPlan& plan, T* out, const F& f, const T* a, const T* b) {
  const std::size_t n = plan.row_length();
  const std::size_t a_stride = plan.a_strides[plan.axes - 1];
  const std::size_t b_stride = plan.b_strides[plan.axes - 1];
  if (plan.rows() == 1) {
    parallel_ranges(n, elements_per_piece, [&](std::size_t begin, std::size_t end) {
      broadcast_row(end - begin, out + begin, f, a + begin * a_stride, a_stride,
                    b + begin * b_stride, b_stride);
    });
    return;
  }
  parallel_rows(plan.rows(), n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const auto [a_offset, b_offset] = plan.row_offsets(row);
      broadcast_row(n, out + row * n, f, a + a_offset, a_stride, b + b_offset, b_stride);
    }
  });
}

/// out = factor * in, expanded to `extents` along the axes where `in` has extent 1; both are
/// row-major and have the same number of axes.
template <class T>
void expand(std::span<const std::size_t> extents, std::span<const std::size_t> in_extents,
            double factor, const T* in, Target<T> out);

}  // namespace tapestry::kernels
