#pragma once

#include <cstdint>

namespace tapestry::testing {

/// Calls of the global operator new so far, on all threads. A program that links allocations.cpp
/// counts every one, of whatever form; memory that the kernels' pool takes from the system is not
/// among them.
std::uint64_t calls_of_new();

}  // namespace tapestry::testing
