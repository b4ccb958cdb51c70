#include "autograd/ops/permute.h"

#include <fmt/format.h>

#include <array>

#include "autograd/error.h"
#include "autograd/kernels/permute.h"
#include "autograd/operation.h"
#include "autograd/ops/axes.h"

namespace tapestry {
namespace {

using Order = std::array<std::size_t, Shape::max_rank>;

/// Reorders the axes of x into `out`, which has the reordered shape.
template <class T>
void permute_values(const Tensor& x, const Order& order, kernels::Target<T> out) {
  kernels::permute({x.shape().begin(), x.shape().end()}, {order.data(), x.rank()},
                   x.values<T>().data(), out);
}

struct Permute {
  static constexpr const char* name = "permute";
  Order order;

  Tensor forward(const Tensor& x) {
    Shape shape = x.shape();
    for (std::size_t k = 0; k < x.rank(); ++k) shape[k] = x.shape()[order[k]];
    Tensor y = Tensor::empty(shape, x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      permute_values(x, order, kernels::Target<T>{y.mutable_values<T>().data()});
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    Order inverse{};
    for (std::size_t k = 0; k < dy.rank(); ++k) inverse[order[k]] = k;
    dispatch(dy.dtype(), [&]<class T>() { permute_values(dy, inverse, dx.target<T>()); });
  }
};

}  // namespace

Tensor permute(const Tensor& x, std::span<const std::ptrdiff_t> axes) {
  const std::size_t rank = x.rank();
  if (resolve_axes(Permute::name, axes, rank).count() != rank) {
    throw ShapeError(
        fmt::format("{}: {} axes given, expected each of the {} of x, whose shape is {}",
                    Permute::name, axes.size(), rank, to_string(x.shape())));
  }
  Order order{};
  for (std::size_t k = 0; k < rank; ++k) order[k] = resolve_axis(Permute::name, axes[k], rank);
  return apply(Permute{order}, x);
}

}  // namespace tapestry
