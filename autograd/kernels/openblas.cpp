// xtensor-blas calls these names, which are defined below: OpenBLAS is loaded when it is chosen.
#define cblas_sgemm tapestry_cblas_sgemm
#define cblas_dgemm tapestry_cblas_dgemm

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <xtensor-blas/xblas.hpp>

#include "autograd/kernels/gemm.h"
#include "autograd/kernels/matmul.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"

namespace tapestry {
namespace {

constexpr const char* shared_library = "libopenblas.so.0";
constexpr const char* choice_variable = "TAPESTRY_MATMUL";
constexpr const char* threads_variable = "OPENBLAS_NUM_THREADS";

Matmul from_environment() {
  const char* const wanted = std::getenv(choice_variable);
  return wanted != nullptr && std::string_view(wanted) == "openblas" ? Matmul::openblas
                                                                     : Matmul::tapestry;
}

/// The choice when the program starts, with a warning about a value that is none.
Matmul first_choice() {
  const char* const wanted = std::getenv(choice_variable);
  const std::string_view name = wanted == nullptr ? "" : wanted;
  if (!name.empty() && name != "tapestry" && name != "openblas") {
    std::fprintf(stderr,
                 "tapestry: warning: environment variable %s: found %s, expected one of tapestry "
                 "openblas; using tapestry\n",
                 choice_variable, wanted);
  }
  return from_environment();
}

std::atomic<Matmul> in_use{first_choice()};

struct OpenBlas {
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_dgemm) dgemm;
  char* (*core_name)();
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    throw std::runtime_error(std::string("matmul: ") + shared_library + " has no function " + name);
  }
}

OpenBlas load_openblas() {
  // OpenBLAS starts its threads when it is loaded. They would not be used, and spin for ever where
  // address space is short.
  const bool is_set = std::getenv(threads_variable) != nullptr;
  if (!is_set) ::setenv(threads_variable, "1", 0);
  void* const library = ::dlopen(shared_library, RTLD_NOW | RTLD_LOCAL);
  if (!is_set) ::unsetenv(threads_variable);
  if (library == nullptr) {
    throw std::runtime_error(
        std::string("matmul: OpenBLAS cannot be loaded: ") + ::dlerror() +
        "; install it (Debian: libopenblas0-pthread) or use Tapestry's own kernels");
  }
  OpenBlas functions{};
  void (*set_num_threads)(int) = nullptr;
  find(library, "cblas_sgemm", functions.sgemm);
  find(library, "cblas_dgemm", functions.dgemm);
  find(library, "openblas_get_corename", functions.core_name);
  find(library, "openblas_set_num_threads", set_num_threads);
  set_num_threads(1);  // its results would depend on the number
  return functions;
}

const OpenBlas& openblas() {
  static const OpenBlas functions = load_openblas();
  return functions;
}

}  // namespace

void use_matmul(Matmul choice) {
  if (choice == Matmul::automatic) choice = from_environment();
  if (choice == Matmul::openblas) openblas();
  in_use = choice;
}

Matmul matmul_in_use() { return in_use.load(std::memory_order_relaxed); }

std::string openblas_kernels() {
  return matmul_in_use() == Matmul::openblas ? openblas().core_name() : "";
}

}  // namespace tapestry

extern "C" {

void cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE a_form, enum CBLAS_TRANSPOSE b_form,
                 int m, int n, int k, float scale, const float* a, int a_stride, const float* b,
                 int b_stride, float factor, float* out, int out_stride) {
  tapestry::openblas().sgemm(order, a_form, b_form, m, n, k, scale, a, a_stride, b, b_stride,
                             factor, out, out_stride);
}

void cblas_dgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE a_form, enum CBLAS_TRANSPOSE b_form,
                 int m, int n, int k, double scale, const double* a, int a_stride, const double* b,
                 int b_stride, double factor, double* out, int out_stride) {
  tapestry::openblas().dgemm(order, a_form, b_form, m, n, k, scale, a, a_stride, b, b_stride,
                             factor, out, out_stride);
}

}  // extern "C"

namespace tapestry::kernels {
namespace {

/// OpenBLAS allocates a buffer for each of our threads at its first product, and retries forever if
/// that fails.
void require_room_for_buffers() {
  constexpr std::size_t buffer = std::size_t{128} << 20;  // of its kernels for x86-64
  static const bool done = [] {
    require_address_space(num_threads() * buffer);
    return true;
  }();
  static_cast<void>(done);
}

/// Products of fewer multiplications than this run on one thread.
inline constexpr std::size_t smallest_split = std::size_t{1} << 18;
inline constexpr std::size_t most_blocks = 16;
inline constexpr std::size_t smallest_block = 32;

/// Rows (or columns) of one block, a multiple of 16.
std::size_t block_extent(std::size_t extent) {
  const std::size_t even = (extent + most_blocks - 1) / most_blocks;
  return std::max(smallest_block, (even + 15) / 16 * 16);
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
void openblas_gemm_here(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a,
                        Operand<T> b, Target<T> out, std::size_t out_stride, const T* bias) {
  if (m == 0 || n == 0) return;
  if (bias != nullptr) start_with_bias(m, n, bias, out, out_stride);
  if (k == 0) {
    if (!out.add) {
      for (std::size_t i = 0; i < m; ++i) std::fill_n(out.data + i * out_stride, n, T(0));
    }
    return;
  }
  require_room_for_buffers();
  const auto transposition = [](bool t) { return t ? cxxblas::Trans : cxxblas::NoTrans; };
  const auto index = [](std::size_t i) { return static_cast<int>(i); };
  cxxblas::gemm<int>(cxxblas::RowMajor, transposition(a.transposed), transposition(b.transposed),
                     index(m), index(n), index(k), scale, a.data, index(a.stride), b.data,
                     index(b.stride), out.add ? T(1) : T(0), out.data, index(out_stride));
}

template <class T>
void openblas_gemm(std::size_t m, std::size_t n, std::size_t k, T scale, Operand<T> a, Operand<T> b,
                   Target<T> out, std::size_t out_stride, const T* bias) {
  if (m * n * k < smallest_split)
    return openblas_gemm_here(m, n, k, scale, a, b, out, out_stride, bias);
  if (m >= n) {
    parallel_ranges(m, block_extent(m), [&](std::size_t begin, std::size_t end) {
      openblas_gemm_here(end - begin, n, k, scale, rows_from(a, begin), b, out + begin * out_stride,
                         out_stride, bias);
    });
  } else {
    parallel_ranges(n, block_extent(n), [&](std::size_t begin, std::size_t end) {
      openblas_gemm_here(m, end - begin, k, scale, a, columns_from(b, begin), out + begin,
                         out_stride, bias == nullptr ? nullptr : bias + begin);
    });
  }
}

#define TAPESTRY_INSTANTIATE(T)                                                                 \
  template void openblas_gemm_here(std::size_t, std::size_t, std::size_t, T, Operand<T>,        \
                                   Operand<T>, Target<T>, std::size_t, const T*);               \
  template void openblas_gemm(std::size_t, std::size_t, std::size_t, T, Operand<T>, Operand<T>, \
                              Target<T>, std::size_t, const T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels
