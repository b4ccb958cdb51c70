#include "autograd/ops/detail/elementwise.h"

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

}  // namespace tapestry
