#pragma once

#include <cstddef>

#include "autograd/kernels/broadcast.h"
#include "autograd/kernels/namespace.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

/// Vector loops over operands that are broadcast. Internal to kernels.
namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

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

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
