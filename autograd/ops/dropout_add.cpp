#include "autograd/ops/dropout_add.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/dropout.h"
#include "autograd/kernels/parallel.h"
#include "autograd/operation.h"
#include "autograd/ops/add.h"
#include "autograd/ops/dropping.h"

namespace tapestry {
namespace {

struct DropoutAdd {
  static constexpr const char* name = "dropout_add";
  std::uint64_t key;
  double rate;

  Tensor forward(const Tensor& residual, const Tensor& x) {
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      const T* r = residual.values<T>().data();
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      kernels::parallel_ranges(
          x.size(), kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
            kernels::dropout_add(key, begin, end - begin, rate, r + begin, in + begin, out + begin);
          });
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dresidual, Gradient dx) const {
    if (dresidual) dresidual.add(dy);
    if (!dx) return;
    dispatch(dy.dtype(), [&]<class T>() { drop(key, rate, dy, dx.target<T>()); });
  }
};

}  // namespace

Tensor dropout_add(const Tensor& residual, const Tensor& x, double rate,
                   const RandomStream& random) {
  common_dtype(DropoutAdd::name, residual, x);
  if (residual.shape() != x.shape()) {
    throw ShapeError(fmt::format("{}: residual has shape {} and x {}, expected one shape",
                                 DropoutAdd::name, to_string(residual.shape()),
                                 to_string(x.shape())));
  }
  if (!drops_anything(DropoutAdd::name, rate, random)) return add(residual, x);
  return apply(DropoutAdd{random.key(), rate}, residual, x);
}

}  // namespace tapestry
