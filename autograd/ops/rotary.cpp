#include "autograd/ops/rotary.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/kernels/rotary.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

void require_pairs(const Tensor& x, const RotaryOptions& options) {
  const std::size_t pairs = 2 * options.num_heads;
  if (x.rank() != 3 || pairs == 0 || x.shape()[2] % pairs != 0 || x.shape()[2] == 0) {
    throw ShapeError(
        fmt::format("rotary: x has shape {}, expected (batch, length, {} heads * even width)",
                    to_string(x.shape()), options.num_heads));
  }
  if (!(options.base > 0 && std::isfinite(options.base))) {
    throw ValueError(fmt::format("rotary: base is {}, expected > 0", options.base));
  }
}

struct Rotary {
  static constexpr const char* name = "rotary";
  kernels::Rotation rotation;

  Tensor forward(const Tensor& x) {
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      kernels::rotate<T>(rotation, x.values<T>().data(), {y.mutable_values<T>().data()});
    });
    return y;
  }
  void backward(const Tensor& dy, Gradient dx) const {
    kernels::Rotation back = rotation;
    back.back = true;
    dispatch(dy.dtype(),
             [&]<class T>() { kernels::rotate<T>(back, dy.values<T>().data(), dx.target<T>()); });
  }
};

}  // namespace

Tensor rotary(const Tensor& x, const RotaryOptions& options) {
  require_pairs(x, options);
  const Shape& shape = x.shape();
  return apply(Rotary{{.batch = shape[0],
                       .length = shape[1],
                       .heads = options.num_heads,
                       .d = shape[2] / options.num_heads,
                       .base = options.base,
                       .first = options.first_position}},
               x);
}

}  // namespace tapestry
