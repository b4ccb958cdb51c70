// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>

namespace tapestry::test {

/// Sets a system limit, such as RLIMIT_FSIZE, for this process and the processes that it starts.
/// The destructor restores the previous limit.
class ResourceLimit {
 public:
  ResourceLimit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource, &before_);
    const rlimit limit{value, before_.rlim_max};
    is_set_ = ::setrlimit(resource, &limit) == 0;
  }
  ResourceLimit(const ResourceLimit&) = delete;
  ResourceLimit& operator=(const ResourceLimit&) = delete;
  ~ResourceLimit() { ::setrlimit(resource_, &before_); }

  /// False if the system allows only smaller limits.
  bool is_set() const { return is_set_; }

 private:
  __rlimit_resource resource_;
  rlimit before_{};
  bool is_set_ = false;
};

/// Limits the address space to `bytes`, but at least to the space that this process already uses,
/// including the threads of other tests, plus the space to start another process. Sets no limit
/// with sanitizers, which need terabytes of address space.
inline ResourceLimit limit_memory(std::size_t bytes) {
#if !defined(TAPESTRY_ASAN) && !defined(TAPESTRY_TSAN)
  constexpr std::size_t to_start_a_process = std::size_t{16} << 20;
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::size_t used = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return {RLIMIT_AS, std::max(bytes, used + to_start_a_process)};
#else
  static_cast<void>(bytes);
  return {RLIMIT_AS, RLIM_INFINITY};
#endif
}

/// Processor time of the child processes that have ended, in seconds. Unlike elapsed time, it
/// hardly depends on other programs.
inline double child_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace tapestry::test
