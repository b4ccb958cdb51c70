#include "autograd/ops/detail/elementwise.h"

#include "autograd/kernels/activations.h"
#include "autograd/ops/detail/axes.h"

namespace tapestry {

void add_unbroadcast(const Gradient& gradient, const Tensor& g) {
  const Shape& wanted = gradient.shape();
  const std::size_t added = g.rank() - wanted.rank();
  AxisSet repeated;
  for (std::size_t axis = 0; axis < g.rank(); ++axis) {
    repeated[axis] = axis < added || (wanted[axis - added] == 1 && g.shape()[axis] != 1);
  }
  gradient.add(summed_over(g, repeated).viewed_as(wanted));
}

Tensor frozen_relu(FrozenBranches& branches, const Tensor& x) {
  constexpr std::int32_t zero = 0, identity = 1;
  Tensor y = map_values([](const auto& v) { return kernels::relu(v); }, x);
  dispatch(x.dtype(), [&]<class T>() {
    const auto in = x.values<T>();
    const auto out = y.mutable_values<T>();
    const auto frozen = branches.next("relu", in.size(), [&](std::size_t i) {
      return in[i] > T(0) ? identity : in[i] < T(0) ? zero : FrozenBranches::at_kink;
    });
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (frozen[i] == identity) out[i] = in[i];
      if (frozen[i] == zero) out[i] = T(0);
    }
  });
  return y;
}

}  // namespace tapestry
