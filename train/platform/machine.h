#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace tapestry {

/// The version of the program, such as "0.1.0".
extern const char* const program_version;

/// The processor cores available to a run.
struct Cores {
  std::size_t all;      ///< cores of the machine
  std::size_t allowed;  ///< cores in the affinity mask of this process
  /// Processor time limit of the control group, in cores.
  double quota = std::numeric_limits<double>::infinity();
  double busy = 0.0;  ///< cores in use by other programs
};

/// The BLAS library that computes matrix products.
struct Blas {
  bool used;                 ///< whether it is in use, see matmul_in_use()
  std::string core;          ///< processor type of the selected kernels
  bool core_is_set;          ///< whether OPENBLAS_CORETYPE sets it
  bool wider_vectors_exist;  ///< whether the processor has AVX2
};

/// The cores of this machine now. Values that cannot be determined keep defaults that cause no
/// warning.
Cores read_cores();
Blas read_blas();

/// What determines the bits of a result besides the config, such as "kernels avx512, matmul
/// tapestry, revision 2" or "kernels avx2, matmul OpenBLAS Haswell, revision 2". The revision grows
/// with changes of the program that change the bits.
std::string arithmetic();

/// A one-line warning if a run has more threads than there are free cores (rounded); else nullopt.
std::optional<std::string> warning_about_cores(const Cores& cores, std::size_t threads);

/// A one-line warning if matrix products use kernels for a much older processor; else nullopt.
std::optional<std::string> warning_about_blas(const Blas& blas);

/// Cores in use by other programs, from the text of /proc/loadavg; the calling process must be
/// otherwise idle. Returns the smaller of the average of the last minute, which includes processes
/// that have just ended, and the number of processes running now, which may end soon.
double busy_cores(const std::string& loadavg);

/// The limit, in cores, of a cpu.max such as "150000 100000" (microseconds per period); infinity
/// for "max 100000" and for invalid text.
double cores_of_cpu_max(const std::string& cpu_max);

/// The smallest cpu.max limit of a control group (version 2) and its parents. `group` is its path
/// relative to `root`, such as "/user.slice/a".
double cpu_quota(const std::filesystem::path& root, std::string_view group);

}  // namespace tapestry
