// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "autograd/instruction_set.h"
#include "autograd/kernels/matmul.h"

namespace tapestry {
namespace {

/// Increase the revision with each code change that alters the results of runs, for example through
/// different rounding (see tests/regressions/digests.txt) or a different order of batches.
/// Checkpoints before revision 2 do not record the revision.
constexpr int revision = 4;

/// Names of OpenBLAS kernels for x86 processors without AVX.
constexpr std::array<std::string_view, 17> narrow_cores = {
    "Generic", "Unknown", "Katmai", "Coppermine", "Northwood",    "Prescott",
    "Banias",  "Atom",    "Core2",  "Penryn",     "Dunnington",   "Nehalem",
    "Athlon",  "Opteron", "Nano",   "Bobcat",     "Opteron_SSE3",
};

bool processor_has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

}  // namespace

std::string arithmetic() {
  return fmt::format(
      "kernels {}, matmul {}, revision {}", kernels_in_use(),
      matmul_in_use() == Matmul::openblas ? "OpenBLAS " + openblas_kernels() : "tapestry",
      revision);
}

Blas read_blas() {
  const char* core_type = std::getenv("OPENBLAS_CORETYPE");
  return {.used = matmul_in_use() == Matmul::openblas,
          .core = openblas_kernels(),
          .core_is_set = core_type != nullptr && *core_type != '\0',
          .wider_vectors_exist = processor_has_avx2()};
}

std::optional<std::string> warning_about_blas(const Blas& blas) {
  if (!blas.used || !blas.wider_vectors_exist) return std::nullopt;
  if (std::ranges::find(narrow_cores, blas.core) == narrow_cores.end()) return std::nullopt;
  return fmt::format(
      "warning: OpenBLAS uses kernels for {}, several times slower than kernels for this "
      "processor; {}",
      blas.core,
      blas.core_is_set ? "unset OPENBLAS_CORETYPE"
                       : "install a newer one (Debian: libopenblas0-pthread)");
}

}  // namespace tapestry
