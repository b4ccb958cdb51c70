// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

/// Makes allocations fail on demand in a program that links memory_shortage.cpp: malloc, calloc,
/// realloc and the aligned forms, and therefore all allocations of operator new, libhdf5 and the
/// C++ library.
namespace tapestry::test {

enum class Shortage {
  once,    ///< one allocation fails
  lasting  ///< the allocation and all later allocations fail
};

/// Makes the n-th allocation from now on fail, n >= 1; for n = 0 all succeed.
void fail_allocation(std::uint64_t n, Shortage shortage);

/// Makes allocations fail that would take more than `bytes` in addition to the memory in use.
void limit_memory(std::uint64_t bytes);

/// Whether an allocation inside libhdf5 has failed since fail_allocation() or limit_memory(), in
/// this process or in its forked children.
bool failed_in_hdf5();

/// Ends the shortage. Returns the number of allocations since fail_allocation().
std::uint64_t end_shortage();

}  // namespace tapestry::test
