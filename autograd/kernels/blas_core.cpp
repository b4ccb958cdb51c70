#include "autograd/kernels/blas_core.h"

// cblas.h, which declares it, cannot stand beside xtensor-blas; see blas.cpp.
extern "C" char* openblas_get_corename(void);

namespace tapestry::kernels {

const char* blas_core() { return openblas_get_corename(); }

}  // namespace tapestry::kernels
