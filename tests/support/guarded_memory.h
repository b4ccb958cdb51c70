// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

/// Memory next to unreadable pages, for test programs: an access beyond an operand is a
/// segmentation fault, even in a release build.
///
/// In a program that links guarded_memory.cpp, started with TAPESTRY_GUARD=back or =front, every
/// block of the kernels' pool comes from here and, if it links allocations.cpp as well, everything
/// that operator new returns. Without the variable nothing changes.
namespace tapestry::test {

/// The side on which memory borders directly on an unreadable page: `back` has one behind its last
/// byte and starts where that puts it, `front` has one before its first byte.
enum class Guard { none, back, front };

/// From the environment; constant for the whole run.
Guard guard() noexcept;
inline bool is_guarded_run() noexcept { return guard() != Guard::none; }

/// `bytes` bytes of 0xff (a NaN in either precision) with an unreadable page on this side, or null
/// if there is no more. Where 0 bytes are, nothing is readable before or behind.
void* allocate_guarded(std::size_t bytes, Guard side) noexcept;
void release_guarded(void* data) noexcept;
/// True for memory of allocate_guarded().
bool is_guarded(const void* data) noexcept;

}  // namespace tapestry::test
