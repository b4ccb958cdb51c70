// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace tapestry::test {

/// Number of calls of the global operator new so far, on all threads and of all overloads, in a
/// program that links allocations.cpp. Blocks of the kernels' pool are not counted.
std::uint64_t calls_of_new();

/// Makes the next operator new of the calling thread for more than `bytes` bytes fail, once.
void fail_next_new_above(std::size_t bytes);

}  // namespace tapestry::test
