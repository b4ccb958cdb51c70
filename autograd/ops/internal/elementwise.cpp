// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/internal/elementwise.h"

#include "autograd/kernels/broadcast.h"
#include "autograd/ops/internal/axes.h"

namespace tapestry {

Tensor broadcast_values(const char* operation, kernels::Binary f, const Tensor& a,
                        const Tensor& b) {
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
    kernels::broadcast_binary(kernels::Function{f}, plan, y.mutable_values<T>().data(),
                              a.values<T>().data(), b.values<T>().data());
  });
  return y;
}

void add_unbroadcast(const Gradient& gradient, const Tensor& g) {
  const Shape& wanted = gradient.shape();
  gradient.add(summed_over(g, repeated_axes(g.shape(), wanted).value()).viewed_as(wanted));
}

void freeze_relu(FrozenBranches& branches, Tensor& y, const Tensor& x) {
  constexpr std::int32_t zero = 0, identity = 1;
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
}

}  // namespace tapestry
