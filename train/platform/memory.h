#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace tapestry {

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
