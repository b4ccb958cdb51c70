#include "autograd/ops/gated.h"

#include <fmt/format.h>

#include "autograd/error.h"

namespace tapestry {
namespace {

/// All axes of y but the last.
std::size_t rows_of(const Tensor& y) { return y.shape().product(0, y.rank() - 1); }

}  // namespace

void require_halves(const char* operation, const Tensor& x) {
  if (x.rank() > 0 && x.shape().back() % 2 == 0) return;
  throw ShapeError(
      fmt::format("{}: x has shape {}, expected a last axis of two halves, values and gates",
                  operation, to_string(x.shape())));
}

Tensor gated_values(kernels::Gate gate, const Tensor& x) {
  const std::size_t n = x.shape().back() / 2;
  Tensor y = Tensor::empty(x.shape().with_last(n), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    kernels::gated(gate, rows_of(y), n, x.values<T>().data(), y.mutable_values<T>().data());
  });
  return y;
}

void gated_gradient(kernels::Gate gate, const Tensor& dy, const Tensor& x, const Gradient& dx) {
  dispatch(dy.dtype(), [&]<class T>() {
    kernels::gated_backward(gate, rows_of(dy), dy.shape().back(), x.values<T>().data(),
                            dy.values<T>().data(), dx.target<T>());
  });
}

}  // namespace tapestry
