// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// A matrix inside row-major memory: element (i, j) of the stored matrix is data[i * stride + j];
/// the product uses its transpose if `transposed`.
template <class T>
struct Operand {
  const T* data;
  std::size_t stride;
  bool transposed = false;
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// out (m, n) = scale * a (m, k) b (k, n), or += if out.add; row i of out starts at i * out_stride.
/// A `bias` of n values, if given, is added to every row.
///
/// The bits of an element of `out` depend only on its row of a, its column of b and k, not on the
/// number of threads or on the other rows and columns. Extents may be 0. With Matmul::openblas the
/// bits also depend on m and n.
template <class T>
void gemm(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
          Target<T> out, std::size_t out_stride, const T* bias = nullptr);

/// Runs on the calling thread only, for use inside the pieces of parallel_for.
template <class T>
void gemm_serial(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
                 Target<T> out, std::size_t out_stride, const T* bias = nullptr);

/// A copy of b (k, n) in the order in which products read its elements; empty with
/// Matmul::openblas.
template <class T>
Memory pack_operand(std::size_t k, std::size_t n, Operand<T> b);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

/// A right operand b (k, n) of several products, packed once. The values must not change while it
/// is used.
template <class T>
class PackedOperand {
 public:
  PackedOperand(std::size_t k, std::size_t n, Operand<T> b);

  std::size_t k() const { return k_; }
  std::size_t n() const { return n_; }
  const Operand<T>& operand() const { return b_; }
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }

 private:
  std::size_t k_, n_;
  Operand<T> b_;
  Memory memory_;
};

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// gemm with a packed b, bit-identical to gemm with b itself.
template <class T>
void gemm_packed(std::size_t m, T scale, Operand<T> a, const PackedOperand<T>& b, Target<T> out,
                 std::size_t out_stride, const T* bias = nullptr);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

/// gemm and gemm_serial using single-threaded calls of OpenBLAS. Unlike Tapestry's kernels,
/// OpenBLAS sums the last rows of a block in a different order from the rest.
template <class T>
void openblas_gemm(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
                   Target<T> out, std::size_t out_stride, const T* bias = nullptr);
template <class T>
void openblas_gemm_serial(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a,
                          Operand<T> b, Target<T> out, std::size_t out_stride,
                          const T* bias = nullptr);

}  // namespace tapestry::kernels
