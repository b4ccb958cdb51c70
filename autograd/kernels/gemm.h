#pragma once

#include <cstddef>

#include "autograd/kernels/target.h"

namespace tapestry::kernels {

/// A matrix inside row-major memory: element (i, j) of the stored matrix is data[i * stride + j];
/// `transposed` means the product uses it the other way round.
template <class T>
struct Operand {
  const T* data;
  std::size_t stride;
  bool transposed = false;
};

/// out (m, n) = scale * a (m, k) b (k, n), or += if out.add; row i of out starts at i * out_stride.
/// A `bias` of n values, if given, is added to every row.
///
/// Large products are cut into blocks by their sizes alone and each block is one single-threaded
/// call of BLAS, so the bits do not depend on the number of threads. Extents may be 0.
template <class T>
void gemm(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
          Target<T> out, std::size_t out_stride, const T* bias = nullptr);

/// The same on the calling thread alone, for use inside the pieces of parallel_for.
template <class T>
void gemm_here(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
               Target<T> out, std::size_t out_stride, const T* bias = nullptr);

}  // namespace tapestry::kernels
