#include "train/system/machine.h"

#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <new>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "autograd/instruction_set.h"
#include "autograd/kernels/matmul.h"

namespace tapestry {
namespace {

constexpr double no_quota = std::numeric_limits<double>::infinity();

/// The OpenBLAS kernels for x86 that use at most SSE vectors.
constexpr std::array<std::string_view, 17> narrow_cores = {
    "Generic", "Unknown", "Katmai", "Coppermine", "Northwood",    "Prescott",
    "Banias",  "Atom",    "Core2",  "Penryn",     "Dunnington",   "Nehalem",
    "Athlon",  "Opteron", "Nano",   "Bobcat",     "Opteron_SSE3",
};

/// Empty if the file cannot be read: a run must not fail because of it.
std::string read_all(const std::filesystem::path& path) try {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
} catch (const std::ios_base::failure&) {  // possible with any exception mask
  return "";
}

/// The version 2 control group of this process.
std::string own_group() {
  std::istringstream groups(read_all("/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "/";
}

/// The numbers of the cores in the affinity mask of this process; empty if it cannot be read.
std::vector<std::size_t> allowed_cores() {
  cpu_set_t mask;
  std::vector<std::size_t> cores;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

/// Seconds on a clock.
std::optional<double> read_clock(clockid_t clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return std::nullopt;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

bool processor_has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

/// "; try train.threads=N" if N is less than `threads`.
std::string fewer_threads(double cores, std::size_t threads) {
  const auto wanted = static_cast<std::size_t>(std::max(1.0, std::floor(cores)));
  return wanted < threads ? fmt::format("; try train.threads={}", wanted) : "";
}

}  // namespace

const char* const program_version = TAPESTRY_VERSION;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

Cores read_cores() {
  return {.allowed = std::max<std::size_t>(1, allowed_cores().size()),
          .quota = cpu_quota("/sys/fs/cgroup", own_group())};
}

Blas read_blas() {
  const char* core_type = std::getenv("OPENBLAS_CORETYPE");
  return {.used = matmul_in_use() == Matmul::openblas,
          .core = openblas_kernels(),
          .core_is_set = core_type != nullptr && *core_type != '\0',
          .wider_vectors_exist = processor_has_avx2()};
}

/// Increased by each change of the program that changes the results of runs, in rounding (which the
/// digests of tests/regressions/digests.txt show) or in the order of batches. Programs before
/// revision 2 recorded none.
constexpr int revision = 4;

std::string arithmetic() {
  return fmt::format(
      "kernels {}, matmul {}, revision {}", kernels_in_use(),
      matmul_in_use() == Matmul::openblas ? "OpenBLAS " + openblas_kernels() : "tapestry",
      revision);
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
        "warning: threads: {}, but the control group's cpu.max limits it to {:.1f} cores{}",
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
  if (interval < sure_interval) return std::nullopt;
  const double busy = ((after.all - before.all) - (after.own - before.own)) / interval;
  const auto cores = static_cast<double>(allowed_cores);
  if (static_cast<double>(threads) <= cores - busy + 0.5) return std::nullopt;
  return fmt::format(
      "warning: threads: {}, but other programs keep {:.1f} of {} cores busy and slow the run down",
      threads, busy, allowed_cores);
}

std::optional<std::string> warning_about_blas(const Blas& blas) {
  if (!blas.used || !blas.wider_vectors_exist) return std::nullopt;
  if (std::ranges::find(narrow_cores, blas.core) == narrow_cores.end()) return std::nullopt;
  return fmt::format(
      "warning: OpenBLAS uses kernels for {}, several times slower than this processor supports; "
      "{}",
      blas.core,
      blas.core_is_set ? "unset OPENBLAS_CORETYPE"
                       : "install a newer one (Debian: libopenblas0-pthread)");
}

std::optional<double> busy_ticks(const std::string& stat, const std::vector<std::size_t>& cores,
                                 bool own_nice) {
  double sum = 0.0;
  std::size_t found = 0;
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    // cpu3 USER NICE SYSTEM IDLE IOWAIT ...
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

namespace {

constexpr std::uint64_t no_limit = AvailableMemory::no_limit;

/// The number that follows a name at the start of a line: "MemFree:  12 kB".
std::optional<std::uint64_t> number_after(const std::filesystem::path& path,
                                          std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    if (std::uint64_t number = 0; rest >> number) return number;
  }
  return std::nullopt;
}

std::uint64_t kilobytes_after(const std::filesystem::path& path, std::string_view name,
                              std::uint64_t otherwise) {
  const auto number = number_after(path, name);
  return number ? 1024 * *number : otherwise;
}

std::uint64_t less(std::uint64_t limit, std::uint64_t used) {
  return limit == no_limit ? no_limit : limit - std::min(limit, used);
}

/// Applies a limit; `used` bytes of it are in use.
void narrow(AvailableMemory& memory, std::uint64_t limit, std::uint64_t used,
            const std::string& bound) {
  memory.total = std::min(memory.total, limit);
  if (less(limit, used) >= memory.free) return;
  memory.free = less(limit, used);
  memory.bound = bound;
}

/// File names of one version of control groups.
struct GroupFiles {
  const char *folder, *limit, *usage, *inactive_cache, *active_cache;
};
constexpr GroupFiles version_1{"sys/fs/cgroup/memory", "memory.limit_in_bytes",
                               "memory.usage_in_bytes", "total_inactive_file ",
                               "total_active_file "};
constexpr GroupFiles version_2{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ",
                               "active_file "};

void narrow_to_group(AvailableMemory& memory, const GroupFiles& files,
                     const std::filesystem::path& folder) {
  const auto limit = number_after(folder / files.limit, "");
  if (!limit) return;
  const auto statistic = [&](const char* name) {
    return number_after(folder / "memory.stat", name).value_or(0);
  };
  const std::uint64_t used = number_after(folder / files.usage, "").value_or(0);
  narrow(memory, *limit,
         less(used, statistic(files.inactive_cache) + statistic(files.active_cache)),
         "the control group's limit");
}

void narrow_to_groups(AvailableMemory& memory, const GroupFiles& files,
                      const std::filesystem::path& root, std::string_view group) {
  std::filesystem::path folder = root / files.folder;
  narrow_to_group(memory, files, folder);
  for (const auto& part : std::filesystem::path(group).relative_path()) {
    folder /= part;
    narrow_to_group(memory, files, folder);
  }
}

void narrow_to_own_groups(AvailableMemory& memory, const std::filesystem::path& root) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) narrow_to_groups(memory, version_2, root, group);
    if (controllers == "memory") narrow_to_groups(memory, version_1, root, group);
  }
}

void narrow_to_process_limits(AvailableMemory& memory, const std::filesystem::path& root) {
  const auto narrow_to = [&](const char* limit, const char* used, const char* bound) {
    const auto bytes = number_after(root / "proc/self/limits", limit);
    if (bytes) narrow(memory, *bytes, kilobytes_after(root / "proc/self/status", used, 0), bound);
  };
  narrow_to("Max address space", "VmSize:", "ulimit -v");
  narrow_to("Max data size", "VmData:", "ulimit -d");
}

int exit_code = EXIT_FAILURE;
std::terminate_handler usual_end = nullptr;

/// Whether the process ends because of std::bad_alloc or because no exception could be allocated.
bool memory_is_lacking() {
  if (std::current_exception() == nullptr) return true;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

[[noreturn]] void end() {
  if (!memory_is_lacking()) usual_end();
  constexpr std::string_view message =
      "tapestry: error: the system has no more memory\n"
      "hint: end other programs or give it more memory (see `ulimit -v`)\n";
  static_cast<void>(!::write(STDERR_FILENO, message.data(), message.size()));
  std::_Exit(exit_code);
}

}  // namespace

AvailableMemory read_available_memory(const std::filesystem::path& root) {
  const auto machine = root / "proc/meminfo";
  AvailableMemory memory{.free = kilobytes_after(machine, "MemAvailable:", no_limit),
                         .total = kilobytes_after(machine, "MemTotal:", no_limit)};
  narrow_to_own_groups(memory, root);
  if (memory.total != no_limit) memory.total += kilobytes_after(machine, "SwapTotal:", 0);
  narrow_to_process_limits(memory, root);
  return memory;
}

void end_with_code_without_memory(int code) {
  exit_code = code;
  usual_end = std::set_terminate(end);
}

void prepare_threads_for_limits() {
  constexpr std::size_t min_stack = std::size_t{1} << 20;
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) == 0) {
    std::size_t stack = 0;
    ::pthread_attr_getstacksize(&attributes, &stack);
    ::pthread_attr_setstacksize(&attributes, std::max(stack, min_stack));
    ::pthread_setattr_default_np(&attributes);
    ::pthread_attr_destroy(&attributes);
  }
  rlimit address_space{};
  ::getrlimit(RLIMIT_AS, &address_space);
  if (address_space.rlim_cur != RLIM_INFINITY) ::mallopt(M_ARENA_MAX, 1);
}

std::uint64_t read_resident_bytes(const std::filesystem::path& root) {
  return kilobytes_after(root / "proc/self/status", "VmRSS:", 0);
}

std::uint64_t read_peak_resident_bytes(const std::filesystem::path& root) {
  return kilobytes_after(root / "proc/self/status", "VmHWM:", 0);
}

}  // namespace tapestry
