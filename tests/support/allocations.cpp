// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/allocations.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "tests/support/guarded_memory.h"

namespace {

using namespace tapestry::test;

std::atomic<std::uint64_t> calls = 0;

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
thread_local std::size_t limit_of_next_failure = no_limit;

bool fails(std::size_t bytes) noexcept {
  if (bytes <= limit_of_next_failure) return false;
  limit_of_next_failure = no_limit;
  return true;
}

void* counted(std::size_t bytes) noexcept {
  calls.fetch_add(1, std::memory_order_relaxed);
  if (fails(bytes)) return nullptr;
  if (is_guarded_run()) {
    if (void* const memory = allocate_guarded(bytes, guard())) return memory;
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* counted(std::size_t bytes, std::align_val_t alignment) noexcept {
  calls.fetch_add(1, std::memory_order_relaxed);
  if (fails(bytes)) return nullptr;
  const auto unit = static_cast<std::size_t>(alignment);
  const std::size_t rounded = (bytes + unit - 1) / unit * unit;
  if (is_guarded_run()) {
    if (void* const memory = allocate_guarded(rounded, guard())) return memory;
  }
  return std::aligned_alloc(unit, rounded);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory) noexcept {
  if (is_guarded(memory)) return release_guarded(memory);
  std::free(memory);
}

}  // namespace

// All overloads are defined, even those that the standard library implements by calling other
// overloads: a sanitizer replaces them, and memory from its operator new must not reach the
// operator delete below.
void* operator new(std::size_t n) { return or_throw(counted(n)); }
void* operator new[](std::size_t n) { return or_throw(counted(n)); }
void* operator new(std::size_t n, std::align_val_t a) { return or_throw(counted(n, a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return or_throw(counted(n, a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return counted(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return counted(n); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted(n, a);
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted(n, a);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  release(memory);
}

namespace tapestry::test {

std::uint64_t calls_of_new() { return calls.load(std::memory_order_relaxed); }

void fail_next_new_above(std::size_t bytes) { limit_of_next_failure = bytes; }

}  // namespace tapestry::test
