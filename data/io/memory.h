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

  std::uint64_t free = no_limit;   ///< bytes available now, in addition to the memory in use
  std::uint64_t total = no_limit;  ///< available if no other process ran, including memory in use
  std::string bound = {};  ///< name of the limit that determines `free`; empty for physical memory
};

/// The minimum of the machine's memory, the limits of this process's control group and its parents
/// (version 1 or 2), `ulimit -v` and `ulimit -d`. `free` includes the page cache; only `total`
/// includes swap space.
///
/// root  folder that contains proc and sys
AvailableMemory read_available_memory(const std::filesystem::path& root = "/");

/// throws  MemoryError: "`found`, which need `bytes` of memory, expected at most ...", if fewer are
///         available: the free memory within the limit of this process or, if it has no limit, the
///         whole memory of the machine.
void require_memory(const std::string& found, std::uint64_t bytes, const std::string& hint,
                    const AvailableMemory& available = read_available_memory());

/// The resident memory of this process in bytes; 0 if it cannot be determined.
std::uint64_t read_resident_bytes(const std::filesystem::path& root = "/");

/// The peak resident memory of this process so far, in bytes; 0 if it cannot be determined.
std::uint64_t read_peak_resident_bytes(const std::filesystem::path& root = "/");

}  // namespace tapestry
