#include "autograd/kernels/broadcast.h"

#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels {
namespace {

using Strides = std::array<std::size_t, BroadcastPlan::max_axes>;

/// Row-major strides, 0 where an axis of extent 1 repeats.
Strides repeating_strides(std::span<const std::size_t> extents) {
  Strides strides{};
  std::size_t stride = 1;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    strides[axis] = extents[axis] == 1 ? 0 : stride;
    stride *= extents[axis];
  }
  return strides;
}

}  // namespace

BroadcastPlan::BroadcastPlan(std::span<const std::size_t> result, std::span<const std::size_t> a,
                             std::span<const std::size_t> b) {
  const Strides all_a = repeating_strides(a);
  const Strides all_b = repeating_strides(b);
  for (std::size_t axis = 0; axis < result.size(); ++axis) {
    if (result[axis] == 1) continue;
    const auto is_contiguous = [&](std::size_t outer_stride, std::size_t stride) {
      return outer_stride == stride * result[axis];
    };
    if (axes > 0 && is_contiguous(a_strides[axes - 1], all_a[axis]) &&
        is_contiguous(b_strides[axes - 1], all_b[axis])) {
      extents[axes - 1] *= result[axis];
    } else {
      extents[axes++] = result[axis];
    }
    a_strides[axes - 1] = all_a[axis];
    b_strides[axes - 1] = all_b[axis];
  }
  if (axes == 0) {  // one element
    extents[axes++] = 1;
    a_strides[0] = b_strides[0] = 1;
  }
}

std::size_t BroadcastPlan::rows() const {
  std::size_t result = 1;
  for (std::size_t axis = 0; axis + 1 < axes; ++axis) result *= extents[axis];
  return result;
}

std::array<std::size_t, 2> BroadcastPlan::row_offsets(std::size_t row) const {
  std::array<std::size_t, 2> offsets{};
  for (std::size_t axis = axes - 1; axis-- > 0;) {
    const std::size_t index = row % extents[axis];
    row /= extents[axis];
    offsets[0] += index * a_strides[axis];
    offsets[1] += index * b_strides[axis];
  }
  return offsets;
}

namespace {

/// out[i] = scale * in[i * stride] for i < n and a stride of 0 or 1.
template <class T>
void expand_row(std::size_t n, const Vec<T>& scale, const T* in, std::size_t stride,
                Target<T> out) {
  if (stride == 0) {
    map(n, out, [value = scale * Vec<T>(in[0])] { return value; });
  } else {
    map(
        n, out, [&](const Vec<T>& v) { return scale * v; }, in);
  }
}

}  // namespace

template <class T>
void expand(std::span<const std::size_t> extents, std::span<const std::size_t> in_extents,
            double factor, const T* in, Target<T> out) {
  const BroadcastPlan plan(extents, in_extents, in_extents);
  const Vec<T> scale(static_cast<T>(factor));
  const std::size_t n = plan.row_length();
  const std::size_t stride = plan.a_strides[plan.axes - 1];
  if (plan.rows() == 1) {
    parallel_ranges(n, elements_per_piece, [&](std::size_t begin, std::size_t end) {
      expand_row(end - begin, scale, in + begin * stride, stride, out + begin);
    });
    return;
  }
  parallel_rows(plan.rows(), n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      expand_row(n, scale, in + plan.row_offsets(row)[0], stride, out + row * n);
    }
  });
}

template void expand(std::span<const std::size_t>, std::span<const std::size_t>, double,
                     const float*, Target<float>);
template void expand(std::span<const std::size_t>, std::span<const std::size_t>, double,
                     const double*, Target<double>);

}  // namespace tapestry::kernels
