#include "autograd/ops/mean.h"

#include "autograd/operation.h"
#include "autograd/ops/axes.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Mean {
  static constexpr const char* name = "mean";
  AxisSet axes;
  bool keep_dims;

  Tensor forward(const Tensor& x) {
    const auto count = static_cast<double>(require_elements(name, x.shape(), axes));
    const auto over_count = [count]<class V>(const V& total) {
      return total / V(static_cast<typename V::value_type>(count));
    };
    return map_values(over_count, summed_over(x, axes))
        .viewed_as(reduced_shape(x.shape(), axes, keep_dims));
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const auto count = static_cast<double>(reduced_count(dx.shape(), axes));
    add_stretched(dx, axes, 1.0 / count, dy);
  }
};

}  // namespace

Tensor mean(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims) {
  return apply(Mean{resolve_axes(Mean::name, axes, x.rank()), keep_dims}, x);
}

Tensor mean(const Tensor& x) { return apply(Mean{all_axes(x.rank()), false}, x); }

}  // namespace tapestry
