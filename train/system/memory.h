// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace tapestry {

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

/// The peak memory of this process in RAM so far, in bytes; 0 if the system does not tell.
std::uint64_t read_peak_resident_bytes(const std::filesystem::path& root = "/");

/// Call this at the start of a program. If memory is so short that not even an exception object
/// can be allocated, the program terminates without an active exception. After this call it then
/// reports the lack of memory and ends with this exit code; the same applies to an uncaught
/// std::bad_alloc.
void set_out_of_memory_exit_code(int code);

/// Call this at the start of a program, before threads start. Threads then work under small
/// limits too: under a small `ulimit -s` each still gets a stack of 1 MiB, which libhdf5 needs, and
/// under `ulimit -v` all share one malloc arena. glibc otherwise takes a whole page for each
/// allocation of a thread whose arena does not fit into the address space.
void prepare_threads_for_limits();

}  // namespace tapestry
