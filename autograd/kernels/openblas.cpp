// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <xtensor-blas/xblas.hpp>

#include "autograd/kernels/environment.h"
#include "autograd/kernels/gemm.h"
#include "autograd/kernels/matmul.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"

// Declared here, because OpenBLAS's cblas.h clashes with the declarations of xtensor-blas.
extern "C" {
void openblas_set_num_threads(int count);
char* openblas_get_corename();
}

namespace tapestry {
namespace {

constexpr const char* choice_variable = "TAPESTRY_MATMUL";

Matmul from_environment() {
  const char* const wanted = std::getenv(choice_variable);
  return wanted != nullptr && std::string_view(wanted) == "openblas" ? Matmul::openblas
                                                                     : Matmul::tapestry;
}

/// The choice of TAPESTRY_MATMUL; warns about an unknown value.
Matmul first_choice() {
  const char* const wanted = std::getenv(choice_variable);
  const std::string_view name = wanted == nullptr ? "" : wanted;
  if (!name.empty() && name != "tapestry" && name != "openblas") {
    std::fprintf(stderr, "tapestry: warning: environment variable %s: found ", choice_variable);
    kernels::print_escaped(wanted);
    std::fputs(", expected one of tapestry openblas; using tapestry\n", stderr);
  }
  return from_environment();
}

std::atomic<Matmul> in_use{first_choice()};

}  // namespace

void use_matmul(Matmul choice) {
  in_use = choice == Matmul::automatic ? from_environment() : choice;
}

Matmul matmul_in_use() { return in_use.load(std::memory_order_relaxed); }

std::string openblas_kernels() {
  return matmul_in_use() == Matmul::openblas ? openblas_get_corename() : "";
}

}  // namespace tapestry

namespace tapestry::kernels {
namespace {

/// Sets OpenBLAS to one thread, since its results depend on the number of threads. OpenBLAS
/// allocates a buffer for each thread at the thread's first product, and retries forever if the
/// allocation fails; so this function throws OutOfMemory if there is no room for the buffers.
void prepare_openblas() {
  constexpr std::size_t buffer = std::size_t{128} << 20;  // size for the x86-64 kernels
  static const bool done = [] {
    openblas_set_num_threads(1);
    require_address_space(num_threads() * buffer);
    return true;
  }();
  static_cast<void>(done);
}

/// Products with fewer multiplications run on one thread.
inline constexpr std::size_t min_parallel_size = std::size_t{1} << 18;
inline constexpr std::size_t max_blocks = 16;
inline constexpr std::size_t min_block = 32;

/// Number of rows (or columns) of one block, a multiple of 16.
std::size_t block_extent(std::size_t extent) {
  const std::size_t even = (extent + max_blocks - 1) / max_blocks;
  return std::max(min_block, (even + 15) / 16 * 16);
}

template <class T>
Operand<T> rows_from(const Operand<T>& a, std::size_t i) {
  return {a.data + (a.transposed ? i : i * a.stride), a.stride, a.transposed};
}

template <class T>
Operand<T> columns_from(const Operand<T>& b, std::size_t j) {
  return {b.data + (b.transposed ? j * b.stride : j), b.stride, b.transposed};
}

/// Initializes the result with the bias, so that the product is added to it.
template <class T>
void start_with_bias(std::size_t m, std::size_t n, const T* bias, Target<T>& out,
                     std::size_t out_stride) {
  for (std::size_t i = 0; i < m; ++i) {
    const Target<T> row = out + i * out_stride;
    for (std::size_t j = 0; j < n; ++j) row.put(j, bias[j]);
  }
  out.add = true;
}

}  // namespace

template <class T>
void openblas_gemm_serial(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a,
                          Operand<T> b, Target<T> out, std::size_t out_stride, const T* bias) {
  if (m == 0 || n == 0) return;
  if (bias != nullptr) start_with_bias(m, n, bias, out, out_stride);
  if (k == 0) {
    if (!out.add) {
      for (std::size_t i = 0; i < m; ++i) std::fill_n(out.data + i * out_stride, n, T(0));
    }
    return;
  }
  prepare_openblas();
  const auto transposition = [](bool t) { return t ? cxxblas::Trans : cxxblas::NoTrans; };
  const auto index = [](std::size_t i) { return static_cast<int>(i); };
  cxxblas::gemm<int>(cxxblas::RowMajor, transposition(a.transposed), transposition(b.transposed),
                     index(m), index(n), index(k), scale, a.data, index(a.stride), b.data,
                     index(b.stride), out.add ? T(1) : T(0), out.data, index(out_stride));
}

template <class T>
void openblas_gemm(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
                   Target<T> out, std::size_t out_stride, const T* bias) {
  if (m * n * k < min_parallel_size)
    return openblas_gemm_serial(m, n, k, scale, a, b, out, out_stride, bias);
  if (m >= n) {
    parallel_ranges(m, block_extent(m), [&](std::size_t begin, std::size_t end) {
      openblas_gemm_serial(end - begin, n, k, scale, rows_from(a, begin), b,
                           out + begin * out_stride, out_stride, bias);
    });
  } else {
    parallel_ranges(n, block_extent(n), [&](std::size_t begin, std::size_t end) {
      openblas_gemm_serial(m, end - begin, k, scale, a, columns_from(b, begin), out + begin,
                           out_stride, bias == nullptr ? nullptr : bias + begin);
    });
  }
}

#define TAPESTRY_INSTANTIATE(T)                                                                 \
  template void openblas_gemm_serial(std::size_t, std::size_t, std::size_t, T, Operand<T>,      \
                                     Operand<T>, Target<T>, std::size_t, const T*);             \
  template void openblas_gemm(std::size_t, std::size_t, std::size_t, T, Operand<T>, Operand<T>, \
                              Target<T>, std::size_t, const T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
