// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

/// Memory next to unreadable pages, for test programs: an access beyond an operand is a
/// segmentation fault, even in a release build.
///
/// In a program that links guarded_memory.cpp and is started with TAPESTRY_GUARD=back or =front,
/// all blocks of the kernels' pool come from here. If the program also links allocations.cpp, so
/// does all memory from operator new. Without the variable, allocation is as usual.
namespace tapestry::test {

/// The side on which memory borders on an unreadable page: `back` directly after the last byte,
/// `front` directly before the first byte.
enum class Guard { none, back, front };

/// The guard of the environment variable TAPESTRY_GUARD; constant for the whole run.
Guard guard() noexcept;
inline bool is_guarded_run() noexcept { return guard() != Guard::none; }

/// `bytes` bytes of 0xff (a NaN in either precision) with an unreadable page on this side, or null
/// if no memory is left. For 0 bytes, both sides are unreadable.
void* allocate_guarded(std::size_t bytes, Guard side) noexcept;
void release_guarded(void* data) noexcept;
/// True for memory from allocate_guarded().
bool is_guarded(const void* data) noexcept;

}  // namespace tapestry::test
