#pragma once

#include "autograd/frozen_branches.h"
#include "autograd/gradient.h"
#include "autograd/kernels/broadcast.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"
#include "autograd/tensor.h"

/// Loops over the elements of tensors, for element-wise operations. Internal.
namespace tapestry {

namespace detail {

template <class T, class F, class... In>
void parallel_map(std::size_t n, kernels::Target<T> out, const F& f, const In*... in) {
  kernels::parallel_ranges(n, kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
    kernels::map(end - begin, out + begin, f, (in + begin)...);
  });
}

}  // namespace detail

/// f(x, more...) element by element, as a new tensor; all inputs have one shape. f takes and
/// returns SIMD vectors of either precision.
template <class F, class... More>
Tensor map_values(const F& f, const Tensor& x, const More&... more) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    detail::parallel_map(x.size(), kernels::Target<T>{y.mutable_values<T>().data()}, f,
                         x.values<T>().data(), more.template values<T>().data()...);
  });
  return y;
}

/// Contributes f(dy, more...), element by element, to the gradient dx; all have one shape.
template <class F, class... More>
void map_gradient(const Gradient& dx, const F& f, const Tensor& dy, const More&... more) {
  dispatch(dy.dtype(), [&]<class T>() {
    detail::parallel_map(dy.size(), dx.target<T>(), f, dy.values<T>().data(),
                         more.template values<T>().data()...);
  });
}

/// f(a, b) element by element, with broadcasting. Throws ShapeError or DTypeError, naming
/// `operation`.
template <class F>
Tensor broadcast_values(const char* operation, const F& f, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shape(operation, a.shape(), b.shape());
  Tensor y = Tensor::empty(shape, common_dtype(operation, a, b));
  if (shape.size() == 0) return y;
  const auto aligned = [&](const Shape& s) {
    Shape result = s;
    while (result.rank() < shape.rank()) result = result.inserted(0, 1);
    return result;
  };
  const Shape sa = aligned(a.shape());
  const Shape sb = aligned(b.shape());
  const kernels::BroadcastPlan plan({shape.begin(), shape.end()}, {sa.begin(), sa.end()},
                                    {sb.begin(), sb.end()});
  dispatch(y.dtype(), [&]<class T>() {
    kernels::broadcast_map(plan, y.mutable_values<T>().data(), f, a.values<T>().data(),
                           b.values<T>().data());
  });
  return y;
}

/// Contributes g to the gradient of an operand that was broadcast to g's shape: sums over the axes
/// along which the operand repeats.
void add_unbroadcast(const Gradient& gradient, const Tensor& g);

/// relu(x) for operations that contain it: every element takes its frozen branch, the identity or
/// 0, whatever the sign of x is now.
Tensor frozen_relu(FrozenBranches& branches, const Tensor& x);

}  // namespace tapestry
