#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>

namespace tapestry::test {

/// While it is alive, this process and those that it starts may take no more than so many bytes of
/// address space; or than this process has already, for threads of other tests, and what it needs
/// to start another. Under the sanitizers, which need terabytes of it, there is no limit.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes) {
    ::getrlimit(RLIMIT_AS, &before_);
#if !defined(TAPESTRY_ASAN) && !defined(TAPESTRY_TSAN)
    constexpr std::size_t to_start_a_process = std::size_t{16} << 20;
    const rlimit tight{std::max(bytes, address_space() + to_start_a_process), before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &tight);
#else
    static_cast<void>(bytes);
#endif
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  /// Of this process, in bytes.
  static std::size_t address_space() {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }

  rlimit before_{};
};

}  // namespace tapestry::test
