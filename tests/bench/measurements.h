// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace tapestry::bench {

/// Measures the seconds since its construction.
class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// The 10th percentile of one or more times: the time without interference. Other programs on a
/// shared machine stall whole steps, which would dominate a mean.
double low_percentile(std::vector<double> times);

/// Event counts of this process so far. The difference of two counts is the count of an interval.
struct Counts {
  std::uint64_t page_faults = 0;
  std::uint64_t pool_allocations = 0;  ///< blocks that the kernels' pool took from the system
  std::uint64_t calls_of_new = 0;      ///< calls of the global operator new

  static Counts now();
  Counts operator-(const Counts& earlier) const;
  Counts operator+(const Counts& others) const;
};

/// Peak resident memory of this process, in bytes; 0 if the system does not report it. The value of
/// getrusage is not used, because it starts with the memory of the parent process.
std::uint64_t peak_memory();

}  // namespace tapestry::bench
