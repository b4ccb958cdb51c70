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
  std::uint64_t total = no_limit;  ///< available if no other process ran, including memory in use
  std::string bound = {};  ///< name of the limit that determines `free`; empty for physical memory
};

/// The minimum of the machine's memory, the limits of this process's control group and its parents
/// (version 1 or 2), `ulimit -v` and `ulimit -d`. `free` includes the page cache; only `total`
/// includes swap space.
///
/// root  folder that contains proc and sys
AvailableMemory read_available_memory(const std::filesystem::path& root = "/");

/// The resident memory of this process in bytes; 0 if it cannot be determined.
std::uint64_t read_resident_bytes(const std::filesystem::path& root = "/");

/// The peak resident memory of this process so far, in bytes; 0 if it cannot be determined.
std::uint64_t read_peak_resident_bytes(const std::filesystem::path& root = "/");

/// Installs a terminate handler that reports that the process has run out of memory and exits with
/// `code`. It handles an uncaught std::bad_alloc, and a termination without an active exception,
/// which happens if memory for an exception object cannot be allocated. Call it at the start of a
/// program.
void set_out_of_memory_exit_code(int code);

/// Prepares for starting threads under small limits. Each thread gets a stack of at least 1 MiB,
/// which libhdf5 needs, even under a smaller `ulimit -s`. Under `ulimit -v`, all threads share one
/// malloc arena: glibc would otherwise use a whole page for each allocation of a thread whose arena
/// does not fit into the address space. Call it at the start of a program, before starting threads.
void prepare_threads_for_limits();

}  // namespace tapestry
