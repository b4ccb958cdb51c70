// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace tapestry::bench {

/// Tells the seconds since it was made.
class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// The 10th percentile: what the program takes when the machine lets it. Neighbours on a shared
/// machine stall whole steps, so that a mean would tell of them. Of one time or more.
double low_percentile(std::vector<double> times);

/// Counts of this process so far; the difference of two counts is what happened between.
struct Counts {
  std::uint64_t page_faults = 0;
  std::uint64_t pool_allocations = 0;  ///< blocks that the kernels' pool took from the system
  std::uint64_t calls_of_new = 0;      ///< of the global operator new

  static Counts now();
  Counts operator-(const Counts& earlier) const;
  Counts operator+(const Counts& others) const;
};

/// The most memory that this process has had resident, in bytes; 0 where the system does not say.
/// Not getrusage's: that one starts with what the parent process had.
std::uint64_t peak_memory();

}  // namespace tapestry::bench
