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

/// Cores for a run.
struct Cores {
  std::size_t all;      ///< of the machine
  std::size_t allowed;  ///< that this process may run on
  /// Cores' worth of time that the control group may use.
  double quota = std::numeric_limits<double>::infinity();
  double busy = 0.0;  ///< at work for other programs
};

/// The BLAS under matrix products.
struct Blas {
  bool used;                 ///< by this build: see kernels::gemm_uses_blas
  std::string core;          ///< the kind of processor that its kernels are for
  bool core_is_set;          ///< by OPENBLAS_CORETYPE
  bool wider_vectors_exist;  ///< the processor has AVX2
};

/// Those of this machine, now. What cannot be found out is left at what raises no warning.
Cores read_cores();
Blas read_blas();

/// What decides the last bits of a result besides program and config: the vectors that the program
/// was compiled for and the kernels that OpenBLAS has chosen, such as "vectors of 64 bytes,
/// OpenBLAS SkylakeX".
std::string arithmetic();

/// One line if fewer cores, rounded, are free than a run has threads.
std::optional<std::string> warning_about_cores(const Cores& cores, std::size_t threads);

/// One line if matrix products are left to kernels for much older processors than this one.
std::optional<std::string> warning_about_blas(const Blas& blas);

/// Cores that others use, from the text of /proc/loadavg, read by a process that does nothing else
/// at the moment. The average of the last minute still holds what has just ended, and what runs
/// right now may be gone in a moment: the lesser of the two counts.
double busy_cores(const std::string& loadavg);

/// Cores' worth of time that a cpu.max such as "150000 100000" (microseconds in each period) gives;
/// infinity for "max 100000" and for what cannot be read.
double cores_of_cpu_max(const std::string& cpu_max);

/// The tightest cpu.max of a control group (version 2) and those above it. `group` is its path
/// below `root`, such as "/user.slice/a".
double cpu_quota(const std::filesystem::path& root, std::string_view group);

/// OpenBLAS starts a thread for each core while it is loaded, of which this program makes no use
/// and which hang, and the program with them at its end, where address space is short. To be called
/// first: starts the program anew with those threads forbidden, if it uses OpenBLAS and the user
/// has not set OPENBLAS_NUM_THREADS; returns otherwise, and if that fails.
void restart_without_blas_threads(char** argv);

/// Memory that this process can have, in bytes. What nothing says is left at no limit.
struct AvailableMemory {
  static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t free = no_limit;   ///< now, beside what it has
  std::uint64_t total = no_limit;  ///< if no other process wanted any, with what it has
  std::string bound = {};          ///< what `free` ends at, if not the machine: "ulimit -v"
};

/// The least of what the machine has, what the control group of this process and those above it
/// (version 1 or 2) may have, and what `ulimit -v` and `ulimit -d` leave. Memory that only caches
/// files counts as free, swap space as memory for `total`.
///
/// root  where proc and sys are
AvailableMemory read_available_memory(const std::filesystem::path& root = "/");

/// For the start of a program. Where so little memory is left that not even an exception can be
/// made, nothing can be thrown or caught: the program is terminated without an active exception.
/// From now on it then says that memory is lacking and ends with this exit code; so it does after a
/// bad_alloc that nobody catches.
void end_with_code_without_memory(int code);

}  // namespace tapestry
