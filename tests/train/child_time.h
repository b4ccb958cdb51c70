#pragma once

#include <sys/resource.h>

#include <chrono>

namespace tapestry::test {

/// Processor time that child processes took since this was made, of those that have ended. Unlike
/// time on the clock it says little about what else the machine does.
class ChildTime {
 public:
  std::chrono::duration<double> passed() const { return now() - start_; }

 private:
  static std::chrono::duration<double> now() {
    rusage usage{};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  static std::chrono::duration<double> seconds(const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  }

  std::chrono::duration<double> start_ = now();
};

}  // namespace tapestry::test
