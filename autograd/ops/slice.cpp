#include "autograd/ops/slice.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/copy.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

struct Slice {
  static constexpr const char* name = "slice";
  std::size_t axis, begin, end;

  Tensor forward(const Tensor& x) {
    Shape shape = x.shape();
    shape[axis] = end - begin;
    Tensor y = Tensor::empty(shape, x.dtype());
    const Rows part = rows_of(x.shape());
    dispatch(x.dtype(), [&]<class T>() {
      kernels::copy_rows(part.rows, part.n, x.values<T>().data() + part.first, part.stride,
                         kernels::Target<T>{y.mutable_values<T>().data()}, part.n);
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const Rows part = rows_of(dx.shape());
    dispatch(dy.dtype(), [&]<class T>() {
      kernels::pad_rows(part.rows, part.n, dy.values<T>().data(), part.first, dx.target<T>(),
                        part.stride);
    });
  }

 private:
  /// x seen as `rows` rows of `stride` elements, of which n from `first` on belong to the part.
  struct Rows {
    std::size_t rows, stride, first, n;
  };
  Rows rows_of(const Shape& x) const {
    const std::size_t inner = x.product(axis + 1, x.rank());
    return {.rows = x.product(0, axis),
            .stride = x[axis] * inner,
            .first = begin * inner,
            .n = (end - begin) * inner};
  }
};

}  // namespace

Tensor slice(const Tensor& x, std::ptrdiff_t axis, std::size_t begin, std::size_t end) {
  const std::size_t resolved = resolve_axis(Slice::name, axis, x.rank());
  if (begin > end || end > x.shape()[resolved]) {
    throw ValueError(fmt::format(
        "{}: [{}, {}) of axis {} of x, whose shape is {}, expected 0 <= begin <= end <= {}",
        Slice::name, begin, end, resolved, to_string(x.shape()), x.shape()[resolved]));
  }
  return apply(Slice{resolved, begin, end}, x);
}

}  // namespace tapestry
