#include "autograd/ops/sum.h"

#include "autograd/operation.h"
#include "autograd/ops/axes.h"

namespace tapestry {
namespace {

struct Sum {
  static constexpr const char* name = "sum";
  AxisSet axes;
  bool keep_dims;

  Tensor forward(const Tensor& x) {
    return summed_over(x, axes).viewed_as(reduced_shape(x.shape(), axes, keep_dims));
  }

  void backward(const Tensor& dy, Gradient dx) const { add_stretched(dx, axes, 1.0, dy); }
};

}  // namespace

Tensor sum(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims) {
  return apply(Sum{resolve_axes(Sum::name, axes, x.rank()), keep_dims}, x);
}

Tensor sum(const Tensor& x) { return apply(Sum{all_axes(x.rank()), false}, x); }

}  // namespace tapestry
