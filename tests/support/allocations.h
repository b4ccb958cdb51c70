#pragma once

#include <cstdint>

namespace tapestry::test {

/// Calls of the global operator new so far, on all threads. A program that links allocations.cpp
/// counts every one, of whatever form; the blocks of the kernels' pool are not among them.
std::uint64_t calls_of_new();

}  // namespace tapestry::test
