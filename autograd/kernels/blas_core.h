#pragma once

namespace tapestry::kernels {

/// The kind of processor that OpenBLAS has chosen its kernels for, such as "SkylakeX";
/// "none" for a build that leaves no products to it.
const char* blas_core();

}  // namespace tapestry::kernels
