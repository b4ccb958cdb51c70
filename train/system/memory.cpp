// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/memory.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <optional>
#include <sstream>
#include <string_view>

namespace tapestry {
namespace {

constexpr std::uint64_t no_limit = AvailableMemory::no_limit;

/// The number after `name` on the first line that starts with it, such as "MemFree:  12 kB".
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

/// Lowers `total` and `free` to a limit.
///
/// used   number of bytes in use that count toward the limit
/// bound  name of the limit
void narrow(AvailableMemory& memory, std::uint64_t limit, std::uint64_t used,
            const std::string& bound) {
  memory.total = std::min(memory.total, limit);
  if (less(limit, used) >= memory.free) return;
  memory.free = less(limit, used);
  memory.bound = bound;
}

/// The file names of a version of control groups.
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

int out_of_memory_exit_code = EXIT_FAILURE;
std::terminate_handler previous_handler = nullptr;

/// Whether the process terminates because of std::bad_alloc or a missing exception object.
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

[[noreturn]] void terminate() {
  if (!memory_is_lacking()) previous_handler();
  constexpr std::string_view message =
      "tapestry: error: the system has no more memory\n"
      "hint: end other programs or give it more memory (see `ulimit -v`)\n";
  static_cast<void>(!::write(STDERR_FILENO, message.data(), message.size()));
  std::_Exit(out_of_memory_exit_code);
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

void set_out_of_memory_exit_code(int code) {
  out_of_memory_exit_code = code;
  previous_handler = std::set_terminate(terminate);
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
