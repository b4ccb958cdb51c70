#include "autograd/ops/head_linear.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/parallel.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

void require_fitting(const Tensor& x, const Tensor& weight) {
  if (weight.rank() != 3) {
    throw ShapeError(fmt::format("head_linear: weight has shape {}, expected (num_heads, out, in)",
                                 to_string(weight.shape())));
  }
  const std::size_t width = weight.shape()[0] * weight.shape()[2];
  if (x.rank() == 0 || x.shape().back() != width) {
    throw ShapeError(
        fmt::format("head_linear: x has shape {}, expected last axis {} (weight is {})",
                    to_string(x.shape()), width, to_string(weight.shape())));
  }
  common_dtype("head_linear", x, weight);
}

struct HeadLinear {
  static constexpr const char* name = "head_linear";
  std::size_t rows, heads, out, in;
  Tensor x{}, weight{};  // each kept only if the other's gradient is wanted

  Tensor forward(const Tensor& input, const Tensor& w) {
    if (w.requires_gradient()) x = input;
    if (input.requires_gradient()) weight = w;
    Tensor y = Tensor::empty(input.shape().with_last(heads * out), input.dtype());
    dispatch(y.dtype(), [&]<class T>() {
      for (std::size_t h = 0; h < heads; ++h) {
        kernels::gemm<T>(rows, out, in, T(1), {head<T>(input, h, in), heads * in},
                         {matrix<T>(w, h), in, true}, {y.mutable_values<T>().data() + h * out},
                         heads * out);
      }
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dw) const {
    dispatch(dy.dtype(), [&]<class T>() {
      if (dx) {
        const kernels::Target<T> target = dx.target<T>();
        for (std::size_t h = 0; h < heads; ++h) {
          kernels::gemm<T>(rows, in, out, T(1), {head<T>(dy, h, out), heads * out},
                           {matrix<T>(weight, h), in}, target + h * in, heads * in);
        }
      }
      if (dw) {
        const kernels::Target<T> target = dw.target<T>();
        kernels::parallel_for(heads, [&](std::size_t h) {
          kernels::gemm_here<T>(out, in, rows, T(1), {head<T>(dy, h, out), heads * out, true},
                                {head<T>(x, h, in), heads * in}, target + h * out * in, in);
        });
      }
    });
  }

 private:
  template <class T>
  static const T* head(const Tensor& values, std::size_t h, std::size_t width) {
    return values.values<T>().data() + h * width;
  }
  template <class T>
  const T* matrix(const Tensor& w, std::size_t h) const {
    return w.values<T>().data() + h * out * in;
  }
};

}  // namespace

Tensor head_linear(const Tensor& x, const Tensor& weight) {
  require_fitting(x, weight);
  const Shape& w = weight.shape();
  return apply(
      HeadLinear{
          .rows = x.shape().product(0, x.rank() - 1), .heads = w[0], .out = w[1], .in = w[2]},
      x, weight);
}

}  // namespace tapestry
