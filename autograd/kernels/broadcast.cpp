#include "autograd/kernels/broadcast.h"

#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
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

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
