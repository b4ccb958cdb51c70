// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/measurements.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "autograd/kernels/memory.h"
#include "tests/support/allocations.h"

namespace tapestry::bench {

double low_percentile(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times.at(times.size() / 10);
}

Counts Counts::now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {.page_faults = static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt),
          .pool_allocations = kernels::memory_statistics().system_allocations,
          .calls_of_new = test::calls_of_new()};
}

Counts Counts::operator-(const Counts& earlier) const {
  return {.page_faults = page_faults - earlier.page_faults,
          .pool_allocations = pool_allocations - earlier.pool_allocations,
          .calls_of_new = calls_of_new - earlier.calls_of_new};
}

Counts Counts::operator+(const Counts& others) const {
  return {.page_faults = page_faults + others.page_faults,
          .pool_allocations = pool_allocations + others.pool_allocations,
          .calls_of_new = calls_of_new + others.calls_of_new};
}

std::uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  std::string field;
  std::uint64_t kilobytes = 0;
  while (status >> field) {
    if (field == "VmHWM:" && status >> kilobytes) return 1024 * kilobytes;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace tapestry::bench
