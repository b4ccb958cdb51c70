#pragma once

#include <sys/resource.h>

#include <cstddef>

namespace tapestry::test {

/// While it is alive, this process and those that it starts may take no more than so many bytes of
/// address space. Under the sanitizers, which need terabytes of it, there is no limit.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes) {
    ::getrlimit(RLIMIT_AS, &before_);
#if !defined(TAPESTRY_ASAN) && !defined(TAPESTRY_TSAN)
    const rlimit tight{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &tight);
#else
    static_cast<void>(bytes);
#endif
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

}  // namespace tapestry::test
