#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

/// The version of the program, such as "0.1.0".
extern const char* const program_version;

/// The name of this machine in its network; "unknown" if the system does not tell.
std::string host_name();

/// The processor cores available to a run.
struct Cores {
  std::size_t allowed;  ///< cores in the affinity mask of this process
  /// Processor time limit of the control group, in cores.
  double quota = std::numeric_limits<double>::infinity();
};

/// Processor time in seconds since the computer or the process started.
struct ProcessorTime {
  double now;  ///< the time of the measurement, on a clock that is never set
  double all;  ///< of all programs, on the cores that this process may use
  double own;  ///< of this process
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

/// Everything except the config that determines the bits of a result, such as "kernels avx512,
/// matmul tapestry, revision 4" or "kernels avx2, matmul OpenBLAS Haswell, revision 4". The
/// revision grows with changes of the program that change the results of runs.
std::string arithmetic();

/// A one-line warning if a run has more threads than it may use cores; else nullopt.
std::optional<std::string> warning_about_cores(const Cores& cores, std::size_t threads);

/// The processor time of the programs now; nullopt if the system does not tell.
std::optional<ProcessorTime> read_processor_time();

/// The interval between measurements that warning_about_other_programs() needs, in seconds.
inline constexpr double sure_interval = 5.0;

/// A one-line warning if a run has more threads than other programs left cores free (rounded)
/// between two measurements; nullopt if there are enough, or if less than sure_interval lies
/// between them.
std::optional<std::string> warning_about_other_programs(const ProcessorTime& before,
                                                        const ProcessorTime& after,
                                                        std::size_t allowed_cores,
                                                        std::size_t threads);

/// A one-line warning if matrix products use kernels for a much older processor; else nullopt.
std::optional<std::string> warning_about_blas(const Blas& blas);

/// The processor time of all programs on some cores, in clock ticks, from the text of /proc/stat;
/// nullopt if it does not have all these cores.
///
/// Counted is the time in user and kernel mode. Waiting for disks (iowait), interrupts, time that a
/// hypervisor gives to other machines (steal), and programs of low priority (nice), which give way
/// to this one, are not.
///
/// cores     numbers of cores, from 0
/// own_nice  whether this process itself has low priority: then that time is counted
std::optional<double> busy_ticks(const std::string& stat, const std::vector<std::size_t>& cores,
                                 bool own_nice);

/// The limit, in cores, of a cpu.max such as "150000 100000" (microseconds per period); infinity
/// for "max 100000" and for invalid text.
double cores_of_cpu_max(const std::string& cpu_max);

/// The smallest cpu.max limit of a control group (version 2) and its parents. `group` is its path
/// relative to `root`, such as "/user.slice/a".
double cpu_quota(const std::filesystem::path& root, std::string_view group);

/// The memory available to this process, in bytes. Unknown limits are `no_limit`.
struct AvailableMemory {
  static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t free = no_limit;   ///< available now, in addition to the memory in use
  std::uint64_t total = no_limit;  ///< if no other process used any, including what is used here
  std::string bound = {};          ///< the limit that determines `free`; empty: the machine
};

/// The minimum of the memory of the machine, the limits of this process's control group and its
/// parents (version 1 or 2), `ulimit -v` and `ulimit -d`. The page cache counts as free; swap space
/// counts only for `total`.
///
/// root  folder that contains proc and sys
AvailableMemory read_available_memory(const std::filesystem::path& root = "/");

/// The memory of this process that is in RAM, in bytes; 0 if the system does not tell.
std::uint64_t read_resident_bytes(const std::filesystem::path& root = "/");

/// The most memory that this process has had in RAM up to now, in bytes; 0 if the system does not
/// tell.
std::uint64_t read_peak_resident_bytes(const std::filesystem::path& root = "/");

/// To be called at the start of a program. If memory is so short that not even an exception object
/// can be allocated, the program terminates without an active exception. After this call it then
/// reports the lack of memory and ends with this exit code; the same applies to an uncaught
/// std::bad_alloc.
void end_with_code_without_memory(int code);

/// To be called at the start of a program, before threads start. Threads then work under small
/// limits too: under a small `ulimit -s` each still gets a stack of 1 MiB, which libhdf5 needs, and
/// under `ulimit -v` all share one malloc arena. glibc otherwise takes a whole page for each
/// allocation of a thread whose arena does not fit into the address space.
void prepare_threads_for_limits();

}  // namespace tapestry
