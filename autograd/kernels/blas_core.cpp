#include "autograd/kernels/blas_core.h"

#include "autograd/kernels/gemm_tile.h"

// cblas.h, which declares it, cannot stand beside xtensor-blas; see blas.cpp.
extern "C" char* openblas_get_corename(void);

namespace tapestry::kernels {

const char* blas_core() {
  // A build without use for OpenBLAS must not refer to it: see tapestry_compile_options.
  if constexpr (has_wide_vectors) {
    return "none";
  } else {
    return openblas_get_corename();
  }
}

}  // namespace tapestry::kernels
