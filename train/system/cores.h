// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The processor cores of this machine, and their load.
namespace tapestry {

/// The processor cores available to a run.
struct Cores {
  std::size_t allowed;  ///< number of cores in the affinity mask of this process
  /// CPU quota of the control group, in cores.
  double quota = std::numeric_limits<double>::infinity();
};

/// Reads the cores available now. Values that cannot be determined get defaults that cause no
/// warning.
Cores read_cores();

/// A one-line warning if a run has more threads than available cores; otherwise nullopt.
std::optional<std::string> warning_about_cores(const Cores& cores, std::size_t threads);

/// CPU time in seconds.
struct ProcessorTime {
  double now;  ///< time of the measurement, on a monotonic clock
  double all;  ///< CPU time of all programs since boot, on the cores that this process may use
  double own;  ///< CPU time of this process since its start
};

/// Reads the CPU times; nullopt if they cannot be determined.
std::optional<ProcessorTime> read_processor_time();

/// Minimum interval between the measurements of warning_about_other_programs(), in seconds.
inline constexpr double min_load_interval = 5.0;

/// A one-line warning if other programs left fewer cores free (rounded) between two measurements
/// than the run has threads; nullopt if enough cores were free, or if less than min_load_interval
/// passed between the measurements.
std::optional<std::string> warning_about_other_programs(const ProcessorTime& before,
                                                        const ProcessorTime& after,
                                                        std::size_t allowed_cores,
                                                        std::size_t threads);

/// CPU time of all programs on some cores, in clock ticks, from the text of /proc/stat; nullopt if
/// one of the cores is missing in the text.
///
/// Counts the time in user and kernel mode. Does not count waiting for disks (iowait), interrupts,
/// time that a hypervisor gives to other machines (steal), and low-priority programs (nice), which
/// yield to this process.
///
/// cores     indices of cores, from 0
/// own_nice  whether this process itself has low priority; nice time then counts as well
std::optional<double> busy_ticks(const std::string& stat, const std::vector<std::size_t>& cores,
                                 bool own_nice);

/// The limit, in cores, in the text of a cpu.max file, such as 1.5 for "150000 100000"
/// (microseconds per period); infinity for "max 100000" and for invalid text.
double cores_of_cpu_max(const std::string& cpu_max);

/// The minimum of the cpu.max limits of a control group (version 2) and its parents, in cores.
///
/// root   folder where control groups are mounted
/// group  path of the group below `root`, such as "/user.slice/a"
double cpu_quota(const std::filesystem::path& root, std::string_view group);

}  // namespace tapestry
