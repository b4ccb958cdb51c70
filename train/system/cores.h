// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The processor cores of this machine, and who uses them.
namespace tapestry {

/// The processor cores available to a run.
struct Cores {
  std::size_t allowed;  ///< cores in the affinity mask of this process
  /// Processor time limit of the control group, in cores.
  double quota = std::numeric_limits<double>::infinity();
};

/// The cores of this machine now. Values that cannot be determined keep defaults that cause no
/// warning.
Cores read_cores();

/// A one-line warning if a run has more threads than it may use cores; else nullopt.
std::optional<std::string> warning_about_cores(const Cores& cores, std::size_t threads);

/// Processor time in seconds since the computer or the process started.
struct ProcessorTime {
  double now;  ///< the time of the measurement, on a clock that is never set
  double all;  ///< load of all programs on the cores that this process may use
  double own;  ///< load of this process
};

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

}  // namespace tapestry
