// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/cores.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <ios>
#include <iterator>
#include <sstream>

namespace tapestry {
namespace {

constexpr double no_quota = std::numeric_limits<double>::infinity();

/// The text of a file. Empty if the file cannot be read, since a run must not fail for this reason.
std::string read_all(const std::filesystem::path& path) try {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
} catch (const std::ios_base::failure&) {  // a stream may throw this with any exception mask
  return "";
}

/// The path of the control group (version 2) of this process.
std::string own_group() {
  std::istringstream groups(read_all("/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "/";
}

/// The indices of the cores in the affinity mask of this process; empty if it cannot be read.
std::vector<std::size_t> allowed_cores() {
  cpu_set_t mask;
  std::vector<std::size_t> cores;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

/// The time of a clock in seconds.
std::optional<double> read_clock(clockid_t clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return std::nullopt;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Returns "; try train.threads=N" with N = max(1, floor(cores)) if N < `threads`; otherwise "".
std::string fewer_threads(double cores, std::size_t threads) {
  const auto wanted = static_cast<std::size_t>(std::max(1.0, std::floor(cores)));
  return wanted < threads ? fmt::format("; try train.threads={}", wanted) : "";
}

}  // namespace

Cores read_cores() {
  return {.allowed = std::max<std::size_t>(1, allowed_cores().size()),
          .quota = cpu_quota("/sys/fs/cgroup", own_group())};
}

std::optional<std::string> warning_about_cores(const Cores& cores, std::size_t threads) {
  const auto wanted = static_cast<double>(threads);
  const auto allowed = static_cast<double>(cores.allowed);
  if (wanted > allowed && allowed <= cores.quota) {
    return fmt::format("warning: threads: {} on {} cores{}", threads, cores.allowed,
                       fewer_threads(allowed, threads));
  }
  if (wanted > cores.quota) {
    return fmt::format(
        "warning: threads: {}, but cpu.max of the control group allows only {:.1f} cores{}",
        threads, cores.quota, fewer_threads(cores.quota, threads));
  }
  return std::nullopt;
}

std::optional<ProcessorTime> read_processor_time() {
  const auto all =
      busy_ticks(read_all("/proc/stat"), allowed_cores(), ::getpriority(PRIO_PROCESS, 0) > 0);
  const auto now = read_clock(CLOCK_MONOTONIC), own = read_clock(CLOCK_PROCESS_CPUTIME_ID);
  if (!all || !now || !own) return std::nullopt;
  return ProcessorTime{
      .now = *now, .all = *all / static_cast<double>(::sysconf(_SC_CLK_TCK)), .own = *own};
}

std::optional<std::string> warning_about_other_programs(const ProcessorTime& before,
                                                        const ProcessorTime& after,
                                                        std::size_t allowed_cores,
                                                        std::size_t threads) {
  const double interval = after.now - before.now;
  if (interval < min_load_interval) return std::nullopt;
  const double busy = ((after.all - before.all) - (after.own - before.own)) / interval;
  const auto cores = static_cast<double>(allowed_cores);
  if (static_cast<double>(threads) <= cores - busy + 0.5) return std::nullopt;
  return fmt::format(
      "warning: threads: {}, but other programs keep {:.1f} of {} cores busy and slow the run down",
      threads, busy, allowed_cores);
}

std::optional<double> busy_ticks(const std::string& stat, const std::vector<std::size_t>& cores,
                                 bool own_nice) {
  double sum = 0.0;
  std::size_t found = 0;
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    // Format of a line: cpu3 USER NICE SYSTEM IDLE IOWAIT ...
    std::istringstream fields(line);
    std::string name;
    double user = 0.0, nice = 0.0, system = 0.0;
    if (!(fields >> name >> user >> nice >> system) || !name.starts_with("cpu")) continue;
    const bool allowed = std::ranges::any_of(
        cores, [&](std::size_t core) { return name == fmt::format("cpu{}", core); });
    if (!allowed) continue;
    ++found;
    sum += user + system + (own_nice ? nice : 0.0);
  }
  if (cores.empty() || found < cores.size()) return std::nullopt;
  return sum;
}

double cores_of_cpu_max(const std::string& cpu_max) {
  double quota = 0.0, period = 0.0;
  std::istringstream text(cpu_max);
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return no_quota;
  return quota / period;
}

double cpu_quota(const std::filesystem::path& root, std::string_view group) {
  std::filesystem::path folder = root;
  double quota = cores_of_cpu_max(read_all(folder / "cpu.max"));
  for (const auto& part : std::filesystem::path(group).relative_path()) {
    folder /= part;
    quota = std::min(quota, cores_of_cpu_max(read_all(folder / "cpu.max")));
  }
  return quota;
}

}  // namespace tapestry
