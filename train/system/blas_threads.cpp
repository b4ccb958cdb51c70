#include "train/system/blas_threads.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "autograd/kernels/gemm.h"

namespace tapestry {

void restart_without_blas_threads(char** argv) {
  constexpr const char* variable = "OPENBLAS_NUM_THREADS";
  if (!kernels::gemm_uses_blas() || std::getenv(variable) != nullptr) return;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error && ::setenv(variable, "1", 0) == 0) ::execv(program.c_str(), argv);
}

}  // namespace tapestry
