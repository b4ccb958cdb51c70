#pragma once

#include <string>

namespace tapestry {

/// What computes the matrix products of all operations.
enum class Matmul {
  /// The library that the environment variable TAPESTRY_MATMUL names, or else Tapestry's kernels.
  automatic,
  /// Tapestry's kernels: a row of a result has the same bits whatever other rows are computed with
  /// it, and on every processor that runs the same kernels.
  tapestry,
  /// OpenBLAS, called through xtensor-blas on one thread for each piece of a product. OpenBLAS
  /// chooses its kernels by the processor, and the bits of a row depend on the number of rows.
  openblas,
};

/// From now on all operations use `choice`. The first product of OpenBLAS sets it to one thread for
/// the whole process. No operation may run during the call.
void use_matmul(Matmul choice);

/// The choice in use: tapestry or openblas.
Matmul matmul_in_use();

/// The kind of processor that OpenBLAS has chosen its kernels for, such as "SkylakeX"; empty if it
/// is not in use.
std::string openblas_kernels();

}  // namespace tapestry
