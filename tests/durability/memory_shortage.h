// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

/// Allocations that fail on demand, in a program that links memory_shortage.cpp: of malloc,
/// calloc, realloc and the aligned forms, and so all of operator new, of libhdf5 and of the C++
/// library.
namespace tapestry::test {

enum class Shortage {
  once,    ///< a single allocation fails
  lasting  ///< and all that come after it
};

/// From now on the n-th allocation fails, n >= 1; 0 lets all succeed.
void fail_allocation(std::uint64_t n, Shortage shortage);

/// From now on allocations fail that would take more than `bytes` beyond what is taken already.
void limit_memory(std::uint64_t bytes);

/// Whether an allocation inside libhdf5 was among those that failed since, in this process or one
/// that it forked.
bool failed_in_hdf5();

/// Ends the shortage. Returns the number of allocations asked for since fail_allocation.
std::uint64_t end_shortage();

}  // namespace tapestry::test
