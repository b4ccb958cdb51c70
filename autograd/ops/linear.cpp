// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/linear.h"

#include <fmt/format.h>

#include <span>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/reduce.h"
#include "autograd/operation.h"
#include "autograd/ops/internal/elementwise.h"

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
  if (!bias.defined()) return;
  if (bias.shape() != Shape{weight.shape()[0]}) {
    throw ShapeError(fmt::format("linear: bias has shape {}, expected ({}) (weight is {})",
                                 to_string(bias.shape()), weight.shape()[0],
                                 to_string(weight.shape())));
  }
  common_dtype("linear", x, bias);
}

struct Linear {
  static constexpr const char* name = "linear";
  static constexpr const char* formula = "y = x Wᵀ + b";
  static constexpr const char* derivative = "dL/dx = dL/dy W, dL/dW = (dL/dy)ᵀ x, dL/db = Σ dL/dy";
  std::size_t rows, in, out;
  Tensor x{}, weight{};  // each is kept only if the other's gradient is needed

  Tensor forward(const ForwardContext& context, const Tensor& input, const Tensor& w,
                 const Tensor& b) {
    if (w.requires_grad()) x = input;
    if (input.requires_grad()) weight = w;
    Tensor y = Tensor::empty(input.shape().with_last(out), input.dtype());
    dispatch(y.dtype(), [&]<class T>() {
      const kernels::Operand<T> a{input.values<T>().data(), in};
      const kernels::Operand<T> columns{w.values<T>().data(), in, true};
      const kernels::Target<T> target{y.mutable_values<T>().data()};
      const T* const bias = b.defined() ? b.values<T>().data() : nullptr;
      if (PackedWeights* const packed = context.thread.packed_weights; packed && w.size() > 0) {
        const auto pack = [&] { return kernels::PackedOperand<T>(in, out, columns); };
        const auto copy = packed->find<kernels::PackedOperand<T>>(w, pack);
        return kernels::gemm_packed<T>(rows, T(1), a, *copy, target, out, bias);
      }
      kernels::gemm<T>(rows, out, in, T(1), a, columns, target, out, bias);
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
  static constexpr const char* formula = "y = W x, head by head";
  static constexpr const char* derivative = "dL/dx = Wᵀ dL/dy, dL/dW = Σ dL/dy xᵀ";
  std::size_t rows, heads, out, in;
  Tensor x{}, weight{};  // each is kept only if the other's gradient is needed

  Tensor forward(const Tensor& input, const Tensor& w) {
    if (w.requires_grad()) x = input;
    if (input.requires_grad()) weight = w;
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
          kernels::gemm_serial<T>(out, in, rows, T(1), {head<T>(dy, h, out), heads * out, true},
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

/// A stack of matrices of the same shape. Each matrix may be used transposed.
struct Matrices {
  Shape batch;                // leading axes
  std::size_t rows, columns;  // rows and columns of a stored matrix
  bool transposed;

  Matrices(const Shape& shape, bool transpose)
      : batch(std::span(shape.begin(), shape.rank() - 2)),
        rows(shape[shape.rank() - 2]),
        columns(shape.back()),
        transposed(transpose) {}
  std::size_t used_rows() const { return transposed ? columns : rows; }
  std::size_t used_columns() const { return transposed ? rows : columns; }
};

/// For each matrix of `batch`, in row-major order, the index of the matching matrix of the operand.
std::vector<std::size_t> matrix_indices(const Shape& batch, const Shape& operand) {
  std::vector<std::size_t> indices(batch.size());
  const std::size_t added = batch.rank() - operand.rank();
  for (std::size_t flat = 0; flat < indices.size(); ++flat) {
    std::size_t rest = flat;
    std::size_t stride = 1;
    for (std::size_t axis = batch.rank(); axis-- > added;) {
      const std::size_t extent = operand[axis - added];
      indices[flat] += extent == 1 ? 0 : rest % batch[axis] * stride;
      rest /= batch[axis];
      stride *= extent;
    }
  }
  return indices;
}

/// out[i] = scale * op(a) op(b) for every matrix i of the broadcast stack.
Tensor multiply(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                double scale) {
  const Matrices as(a.shape(), transpose_a);
  const Matrices bs(b.shape(), transpose_b);
  const Shape batch = broadcast_shape("matmul", as.batch, bs.batch);
  const std::size_t m = as.used_rows();
  const std::size_t k = as.used_columns();
  const std::size_t n = bs.used_columns();
  Tensor y =
      Tensor::empty(batch.inserted(batch.rank(), m).inserted(batch.rank() + 1, n), a.dtype());
  const std::vector<std::size_t> a_index = matrix_indices(batch, as.batch);
  const std::vector<std::size_t> b_index = matrix_indices(batch, bs.batch);
  dispatch(a.dtype(), [&]<class T>() {
    const T* a_values = a.values<T>().data();
    const T* b_values = b.values<T>().data();
    T* out = y.mutable_values<T>().data();
    const auto product = [&](auto&& gemm, std::size_t i) {
      gemm(m, n, k, static_cast<T>(scale),
           kernels::Operand<T>{a_values + a_index[i] * m * k, as.columns, transpose_a},
           kernels::Operand<T>{b_values + b_index[i] * k * n, bs.columns, transpose_b},
           kernels::Target<T>{out + i * m * n}, n, nullptr);
    };
    if (a_index.size() == 1) return product(kernels::gemm<T>, 0);
    kernels::parallel_rows(a_index.size(), m * n, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) product(kernels::gemm_serial<T>, i);
    });
  });
  return y;
}

struct MatrixProduct {
  static constexpr const char* name = "matmul";
  static constexpr const char* formula = "y = A B";
  static constexpr const char* derivative = "dL/dA = dL/dy Bᵀ, dL/dB = Aᵀ dL/dy";
  MatmulOptions options;
  Tensor a{}, b{};  // each is kept only if the other's gradient is needed

  Tensor forward(const Tensor& x, const Tensor& y) {
    if (y.requires_grad()) a = x;
    if (x.requires_grad()) b = y;
    return multiply(x, options.transpose_a, y, options.transpose_b, options.scale);
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    const auto [ta, tb, scale] = options;
    if (da) {
      add_unbroadcast(da,
                      ta ? multiply(b, tb, dy, true, scale) : multiply(dy, false, b, !tb, scale));
    }
    if (db) {
      add_unbroadcast(db,
                      tb ? multiply(dy, true, a, ta, scale) : multiply(a, !ta, dy, false, scale));
    }
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

Tensor head_linear(const Tensor& x, const Tensor& weight) {
  require_head_operands(x, weight);
  const Shape& w = weight.shape();
  return apply(
      HeadLinear{
          .rows = x.shape().product(0, x.rank() - 1), .heads = w[0], .out = w[1], .in = w[2]},
      x, weight);
}

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  common_dtype("matmul", a, b);
  const auto described = [](const Tensor& x, bool transposed) {
    return to_string(x.shape()) + (transposed ? " transposed" : "");
  };
  if (a.rank() < 2 || b.rank() < 2 ||
      Matrices(a.shape(), options.transpose_a).used_columns() !=
          Matrices(b.shape(), options.transpose_b).used_rows()) {
    throw ShapeError(
        fmt::format("matmul: a is {} and b is {}, expected (..., m, k) and (..., k, n)",
                    described(a, options.transpose_a), described(b, options.transpose_b)));
  }
  return apply(MatrixProduct{options}, a, b);
}

}  // namespace tapestry
