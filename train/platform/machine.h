#pragma once

#include <cstddef>
#include <cstdint>
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
  bool used;                 ///< whether this build uses it: see kernels::gemm_uses_blas
  std::string core;          ///< processor type of the selected kernels
  bool core_is_set;          ///< whether OPENBLAS_CORETYPE sets it
  bool wider_vectors_exist;  ///< whether the processor has AVX2
};

/// The cores of this machine now. Values that cannot be determined keep defaults that cause no
/// warning.
Cores read_cores();
Blas read_blas();

/// What determines the bits of a result besides program and config: the vector width of the build
/// and the selected OpenBLAS kernels, such as "vectors of 64 bytes, OpenBLAS SkylakeX".
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

/// Restarts the program with OPENBLAS_NUM_THREADS=1. OpenBLAS starts one thread per core when it is
/// loaded; this program does not use them, and with little address space they hang and keep the
/// program from ending. Returns without a restart if the build does not use OpenBLAS, if the user
/// has set OPENBLAS_NUM_THREADS, or if the restart fails. To be called first in main().
void restart_without_blas_threads(char** argv);

/// The memory available to this process, in bytes. Unknown limits are `no_limit`.
struct AvailableMemory {
  static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t free = no_limit;   ///< available now, besides the memory already in use
  std::uint64_t total = no_limit;  ///< if no other process used any, including what is used here
  std::string bound = {};          ///< the limit that determines `free`; empty: the machine
};

/// The minimum of the memory of the machine, the limits of this process's control group and its
/// parents (version 1 or 2), `ulimit -v` and `ulimit -d`. The page cache counts as free; swap space
/// counts only for `total`.
///
/// root  folder that contains proc and sys
AvailableMemory read_available_memory(const std::filesystem::path& root = "/");

/// To be called at the start of a program. If memory is so short that not even an exception object
/// can be allocated, the program terminates without an active exception. After this call it then
/// reports the lack of memory and ends with this exit code; the same applies to an uncaught
/// std::bad_alloc.
void end_with_code_without_memory(int code);

}  // namespace tapestry
