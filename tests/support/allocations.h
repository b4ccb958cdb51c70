// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace tapestry::test {

/// Calls of the global operator new so far, on all threads. A program that links allocations.cpp
/// counts every one, of whatever form; the blocks of the kernels' pool are not among them.
std::uint64_t calls_of_new();

/// The next operator new of the calling thread for more than this number of bytes fails, and those
/// after it do not.
void fail_next_new_above(std::size_t bytes);

}  // namespace tapestry::test
