#include "autograd/ops/transpose.h"

#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "autograd/ops/permute.h"

namespace tapestry {

Tensor transpose(const Tensor& x, std::ptrdiff_t axis_a, std::ptrdiff_t axis_b) {
  const std::size_t a = resolve_axis("transpose", axis_a, x.rank());
  const std::size_t b = resolve_axis("transpose", axis_b, x.rank());
  std::array<std::ptrdiff_t, Shape::max_rank> order{};
  std::iota(order.begin(), order.end(), std::ptrdiff_t{0});
  std::swap(order[a], order[b]);
  return permute(x, std::span(order).first(x.rank()));
}

}  // namespace tapestry
