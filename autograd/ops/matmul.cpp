#include "autograd/ops/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/parallel.h"
#include "autograd/operation.h"
#include "autograd/ops/detail/elementwise.h"

namespace tapestry {
namespace {

/// A stack of equally large matrices, each of which may be used transposed.
struct Matrices {
  Shape batch;                // leading axes
  std::size_t rows, columns;  // of a matrix as stored
  bool transposed;

  Matrices(const Shape& shape, bool transpose)
      : batch(std::span(shape.begin(), shape.rank() - 2)),
        rows(shape[shape.rank() - 2]),
        columns(shape.back()),
        transposed(transpose) {}
  std::size_t used_rows() const { return transposed ? columns : rows; }
  std::size_t used_columns() const { return transposed ? rows : columns; }
};

/// For each matrix of `batch`, in row-major order, the index of the operand's matrix for it.
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
      for (std::size_t i = begin; i < end; ++i) product(kernels::gemm_here<T>, i);
    });
  });
  return y;
}

struct Matmul {
  static constexpr const char* name = "matmul";
  MatmulOptions options;
  Tensor a{}, b{};  // each kept only if the other's gradient is needed

  Tensor forward(const Tensor& x, const Tensor& y) {
    if (y.requires_gradient()) a = x;
    if (x.requires_gradient()) b = y;
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
  return apply(Matmul{options}, a, b);
}

}  // namespace tapestry
