#pragma once

#include <cstddef>

#include "autograd/kernels/gemm.h"

namespace tapestry::kernels {

/// gemm and gemm_here of gemm.h by single-threaded calls of BLAS. OpenBLAS chooses among its
/// kernels when the program runs, so a build for any machine of a family is fast on each of them.
/// Unlike our own kernels, they compute the last rows of a block in another order than the rest.
template <class T>
void blas_gemm(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
               Target<T> out, std::size_t out_stride, const T* bias = nullptr);
template <class T>
void blas_gemm_here(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a,
                    Operand<T> b, Target<T> out, std::size_t out_stride, const T* bias = nullptr);

}  // namespace tapestry::kernels
