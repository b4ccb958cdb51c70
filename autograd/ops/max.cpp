#include "autograd/ops/max.h"

#include <array>
#include <vector>

#include "autograd/kernels/max.h"
#include "autograd/operation.h"
#include "autograd/ops/axes.h"
#include "autograd/ops/permute.h"

namespace tapestry {
namespace {

/// The maximum over the adjacent axes [first, last), in the shape `result`.
struct Max {
  static constexpr const char* name = "max";
  std::size_t first, last;
  Shape result;
  std::vector<std::size_t, kernels::PoolAllocator<std::size_t>> where{};  // along [first, last)

  Tensor forward(const Tensor& x) {
    const Shape& shape = x.shape();
    Tensor y = Tensor::empty(result, x.dtype());
    where.resize(result.size());
    dispatch(x.dtype(), [&]<class T>() {
      kernels::max_middle_axis(shape.product(0, first), shape.product(first, last),
                               shape.product(last, shape.rank()), x.values<T>().data(),
                               y.mutable_values<T>().data(), where.data());
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const Shape& shape = dx.shape();
    dispatch(dy.dtype(), [&]<class T>() {
      kernels::max_middle_axis_backward(shape.product(0, first), shape.product(first, last),
                                        shape.product(last, shape.rank()), where.data(),
                                        dy.values<T>().data(), dx.target<T>());
    });
  }
};

/// x with the axes in the set moved to the end; otherwise they keep their order.
Tensor with_set_last(const Tensor& x, const AxisSet& axes) {
  std::array<std::ptrdiff_t, Shape::max_rank> order{};
  std::size_t count = 0;
  for (const bool in_set : {false, true}) {
    for (std::size_t axis = 0; axis < x.rank(); ++axis) {
      if (axes[axis] == in_set) order[count++] = static_cast<std::ptrdiff_t>(axis);
    }
  }
  return permute(x, std::span(order).first(count));
}

Tensor max_over(const Tensor& x, const AxisSet& axes, bool keep_dims) {
  require_elements(Max::name, x.shape(), axes);
  const Shape result = reduced_shape(x.shape(), axes, keep_dims);
  const std::size_t rank = x.rank();
  const std::size_t count = axes.count();
  for (std::size_t first = 0; first + count <= rank; ++first) {
    const AxisSet run = all_axes(count) << first;
    if (axes == run) return apply(Max{first, first + count, result}, x);
  }
  return apply(Max{rank - count, rank, result}, with_set_last(x, axes));
}

}  // namespace

Tensor max(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims) {
  return max_over(x, resolve_axes(Max::name, axes, x.rank()), keep_dims);
}

Tensor max(const Tensor& x) { return max_over(x, all_axes(x.rank()), false); }

}  // namespace tapestry
