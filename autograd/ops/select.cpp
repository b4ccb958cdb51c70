#include "autograd/ops/select.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/slice.h"

namespace tapestry {

Tensor select(const Tensor& x, std::ptrdiff_t axis, std::ptrdiff_t index) {
  const std::size_t along = resolve_axis("select", axis, x.rank());
  const auto extent = static_cast<std::ptrdiff_t>(x.shape()[along]);
  if (index < -extent || index >= extent) {
    throw ValueError(fmt::format(
        "select: index {} of axis {} of x, whose shape is {}, expected {} <= index < {}", index,
        along, to_string(x.shape()), -extent, extent));
  }
  const auto begin = static_cast<std::size_t>(index < 0 ? index + extent : index);
  return reshape(slice(x, axis, begin, begin + 1), x.shape().erased(along));
}

}  // namespace tapestry
