// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

namespace tapestry {

/// Describes everything other than the config that affects the bits of results, such as "kernels
/// avx512, matmul tapestry, revision 4" or "kernels avx2, matmul OpenBLAS Haswell, revision 4". The
/// revision increases when a code change alters the results of runs.
std::string arithmetic();

/// The BLAS library that computes matrix products.
struct Blas {
  bool used;                 ///< whether the program uses OpenBLAS, see matmul_in_use()
  std::string core;          ///< processor type of the selected kernels
  bool core_is_set;          ///< whether OPENBLAS_CORETYPE is set
  bool wider_vectors_exist;  ///< whether the processor has AVX2
};

Blas read_blas();

/// A one-line warning if matrix products use slow OpenBLAS kernels for a much older processor;
/// otherwise nullopt.
std::optional<std::string> warning_about_blas(const Blas& blas);

}  // namespace tapestry
