#include "autograd/ops/linear.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/reduce.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

void require_operands(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.rank() != 2) {
    throw ShapeError(
        fmt::format("linear: weight has shape {}, expected (out, in)", to_string(weight.shape())));
  }
  if (x.rank() == 0 || x.shape().back() != weight.shape()[1]) {
    throw ShapeError(fmt::format("linear: x has shape {}, expected last axis {} (weight is {})",
                                 to_string(x.shape()), weight.shape()[1],
                                 to_string(weight.shape())));
  }
  common_dtype("linear", x, weight);
  if (!bias) return;
  if (bias.shape() != Shape{weight.shape()[0]}) {
    throw ShapeError(fmt::format("linear: bias has shape {}, expected ({}) (weight is {})",
                                 to_string(bias.shape()), weight.shape()[0],
                                 to_string(weight.shape())));
  }
  common_dtype("linear", x, bias);
}

struct Linear {
  static constexpr const char* name = "linear";
  std::size_t rows, in, out;
  Tensor x{}, weight{};  // each kept only if the other's gradient is needed

  Tensor forward(const Tensor& input, const Tensor& w, const Tensor& b) {
    if (w.requires_gradient()) x = input;
    if (input.requires_gradient()) weight = w;
    Tensor y = Tensor::empty(input.shape().with_last(out), input.dtype());
    dispatch(y.dtype(), [&]<class T>() {
      kernels::gemm<T>(rows, out, in, T(1), {input.values<T>().data(), in},
                       {w.values<T>().data(), in, true}, {y.mutable_values<T>().data()}, out,
                       b ? b.values<T>().data() : nullptr);
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dw, Gradient db) const {
    dispatch(dy.dtype(), [&]<class T>() {
      const T* g = dy.values<T>().data();
      if (dx) {
        kernels::gemm<T>(rows, in, out, T(1), {g, out}, {weight.values<T>().data(), in},
                         dx.target<T>(), in);
      }
      if (dw) {
        kernels::gemm<T>(out, in, rows, T(1), {g, out, true}, {x.values<T>().data(), in},
                         dw.target<T>(), in);
      }
      if (db) kernels::sum_middle_axis(1, rows, out, g, db.target<T>());
    });
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_operands(x, weight, bias);
  const std::size_t in = weight.shape()[1];
  return apply(
      Linear{.rows = x.shape().product(0, x.rank() - 1), .in = in, .out = weight.shape()[0]}, x,
      weight, bias);
}

namespace {

void require_head_operands(const Tensor& x, const Tensor& weight) {
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
  Tensor x{}, weight{};  // each kept only if the other's gradient is needed

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
  require_head_operands(x, weight);
  const Shape& w = weight.shape();
  return apply(
      HeadLinear{
          .rows = x.shape().product(0, x.rank() - 1), .heads = w[0], .out = w[1], .in = w[2]},
      x, weight);
}

}  // namespace tapestry
