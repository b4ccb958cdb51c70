// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "data/io/error.h"

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

std::string gigabytes(std::uint64_t bytes) {
  return fmt::format("{:.3g} GB", static_cast<double>(bytes) / 1e9);
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

void require_memory(const std::string& found, std::uint64_t bytes, const std::string& hint,
                    const AvailableMemory& available) {
  const std::uint64_t limit = available.bound.empty() ? available.total : available.free;
  if (bytes <= limit) return;
  throw MemoryError(
      fmt::format("{}, which need {} of memory, expected at most {}, {}", found, gigabytes(bytes),
                  gigabytes(limit),
                  available.bound.empty() ? "the memory of this machine" : available.bound),
      hint);
}

std::uint64_t read_resident_bytes(const std::filesystem::path& root) {
  return kilobytes_after(root / "proc/self/status", "VmRSS:", 0);
}

std::uint64_t read_peak_resident_bytes(const std::filesystem::path& root) {
  return kilobytes_after(root / "proc/self/status", "VmHWM:", 0);
}

}  // namespace tapestry
