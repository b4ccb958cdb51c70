// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/guarded_memory.h"

namespace tapestry::kernels {

namespace detail {
std::uint64_t searches_for_unused();  // defined in memory.cpp
}

namespace {

std::size_t pool_bytes() { return memory_statistics().bytes_in_use; }

/// Pool memory that a request for `bytes` uses, in bytes.
std::size_t taken_by(std::size_t bytes) {
  const std::size_t before = pool_bytes();
  const Memory memory(bytes);
  return pool_bytes() - before;
}

}  // namespace

// In a guarded run, blocks do not come from the pool.
TEST_SUITE_BEGIN("memory pool" * doctest::skip(test::is_guarded_run()));

TEST_CASE("every block starts on a 64-byte boundary and has at least the requested size") {
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 200, 4096, 100000, 5000000}) {
    CAPTURE(bytes);
    const Memory memory(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 0);
    CHECK(taken_by(bytes) >= bytes);
    std::memset(memory.data(), 0x5a, bytes);
  }
}

TEST_CASE("size classes are 64 bytes apart up to 512 bytes, then four per power of two") {
  const std::pair<std::size_t, std::size_t> classes[] = {
      {0, 64},      {1, 64},        {64, 64},       {65, 128},     {128, 128}, {129, 192},
      {192, 192},   {193, 256},     {256, 256},     {257, 320},    {448, 448}, {449, 512},
      {512, 512},   {513, 640},     {640, 640},     {641, 768},    {896, 896}, {897, 1024},
      {1025, 1280}, {40960, 40960}, {40961, 49152}, {49153, 57344}};
  for (const auto& size : classes) {
    CAPTURE(size.first);
    CHECK(taken_by(size.first) == size.second);
  }
}

TEST_CASE("a released block is reused by the next request of its size class") {
  const std::byte* const first = Memory(1000).data();
  const std::uint64_t allocations = memory_statistics().system_allocations;
  const Memory again(1020);
  CHECK(again.data() == first);
  CHECK(memory_statistics().system_allocations == allocations);
}

/// Larger than any block of another test, and never written.
constexpr std::size_t huge = std::size_t{1} << 28;

TEST_CASE("a free block of up to twice the size is reused if the pool would become too large") {
  release_unused_memory();
  restart_memory_peak();
  const std::byte* const larger = Memory(2 * huge).data();
  const auto before = memory_statistics();
  const Memory half(huge);
  CHECK(half.data() == larger);
  CHECK(memory_statistics().system_allocations == before.system_allocations);
  CHECK(memory_statistics().bytes_in_use - before.bytes_in_use == 2 * huge);
}

TEST_CASE("a small pool does not reuse a free block of another size class") {
  release_unused_memory();
  restart_memory_peak();
  const std::byte* const larger = Memory(1 << 20).data();
  const Memory half(1 << 19);
  CHECK(half.data() != larger);
  CHECK(Memory(1 << 20).data() == larger);
}

TEST_CASE("memory does not grow when every block has a new size") {
  release_unused_memory();
  restart_memory_peak();
  // Memory next to blocks in use, such as the scratch memory of threads, cannot be returned.
  const std::size_t others = memory_statistics().bytes_reserved;
  for (std::size_t bytes = huge / 8; bytes < 4 * huge; bytes += huge / 8) {
    CAPTURE(bytes);
    const Memory memory(bytes);
    const auto statistics = memory_statistics();
    CHECK(statistics.bytes_reserved < statistics.peak_bytes_in_use * 5 / 4 + others + (40 << 20));
  }
  release_unused_memory();
}

TEST_CASE("a pool of many small blocks is not searched for unused memory at every request") {
  release_unused_memory();
  constexpr std::size_t small = 20'000;   // in bytes; too small to be released
  constexpr std::size_t other = 24'000;   // in bytes; in a different size class
  constexpr std::size_t kept = 48 << 20;  // in bytes; more than the pool always keeps
  {
    std::vector<Memory> many;
    for (std::size_t i = 0; i < kept / small; ++i) many.emplace_back(small);
  }
  restart_memory_peak();
  const std::uint64_t before = detail::searches_for_unused();
  std::vector<Memory> others;
  for (int i = 0; i < 100; ++i) others.emplace_back(other);
  CHECK(detail::searches_for_unused() - before <= 1);
  // The pool still finds and releases a large free block.
  { const Memory large(40 << 20); }
  const std::size_t reserved = memory_statistics().bytes_reserved;
  for (int i = 0; i < 10; ++i) others.emplace_back(other);
  CHECK(detail::searches_for_unused() - before >= 1);
  CHECK(memory_statistics().bytes_reserved < reserved);
  others.clear();
  release_unused_memory();
}

TEST_CASE("release_unused_memory() returns all unused blocks to the system and no others") {
  constexpr std::size_t large = std::size_t{40} << 20;
  release_unused_memory();
  const std::size_t before = memory_statistics().bytes_reserved;
  {
    const Memory kept(large);
    std::memset(kept.data(), 0x5a, large);
    { const Memory unused(large); }
    CHECK(memory_statistics().bytes_reserved >= before + 2 * large);
    release_unused_memory();
    CHECK(memory_statistics().bytes_reserved >= before + large);
    CHECK(memory_statistics().bytes_reserved < before + 2 * large);
    CHECK(kept.data()[large - 1] == std::byte{0x5a});
    const Memory again(large);
    std::memset(again.data(), 0, large);
    CHECK(kept.data()[0] == std::byte{0x5a});
  }
  release_unused_memory();
  CHECK(memory_statistics().bytes_reserved == before);
}

TEST_CASE("release_unused_memory() also returns small free blocks") {
  for (const std::size_t bytes : {1, 640, 20'000, 50'000}) {
    CAPTURE(bytes);
    release_unused_memory();
    const std::size_t before = memory_statistics().bytes_reserved;
    { const Memory unused(bytes); }
    CHECK(memory_statistics().bytes_reserved > before);
    release_unused_memory();
    CHECK(memory_statistics().bytes_reserved == before);
  }
}

TEST_CASE("release_unused_memory() returns only whole regions without a used block") {
  constexpr std::size_t bytes = std::size_t{1} << 20;
  std::vector<Memory> held;
  for (std::size_t i = 0; i < 100; ++i) {
    held.emplace_back(bytes);
    std::memset(held.back().data(), static_cast<int>(i), bytes);
  }
  const std::size_t before = memory_statistics().bytes_reserved;
  held.erase(held.begin(), held.begin() + 99);
  release_unused_memory();
  CHECK(memory_statistics().bytes_reserved < before - 40 * bytes);
  CHECK(held[0].data()[0] == std::byte{99});
  CHECK(held[0].data()[bytes - 1] == std::byte{99});
}

TEST_CASE("a block is released when its last handle is destroyed") {
  const std::size_t before = pool_bytes();
  Memory memory(640);
  CHECK(memory.unique());
  Memory copy = memory;
  CHECK_FALSE(memory.unique());
  CHECK(copy.data() == memory.data());
  const Memory moved = std::move(memory);
  CHECK_FALSE(memory);  // NOLINT(bugprone-use-after-move): a moved-from handle owns nothing
  CHECK(pool_bytes() == before + 640);
  copy = Memory();
  CHECK(moved.unique());
  CHECK(pool_bytes() == before + 640);
  copy = moved;
  CHECK_FALSE(moved.unique());
}

TEST_CASE("an empty Memory is false, has no data and is not unique") {
  const Memory none;
  CHECK_FALSE(none);
  CHECK(none.data() == nullptr);
  CHECK_FALSE(none.unique());
}

TEST_CASE("the peak is the largest number of bytes in use at the same time") {
  const std::size_t above_peak = memory_statistics().peak_bytes_in_use - pool_bytes() + 1;
  { const Memory large(above_peak); }
  const MemoryStatistics statistics = memory_statistics();
  CHECK(statistics.peak_bytes_in_use >= statistics.bytes_in_use + above_peak);
  CHECK(statistics.bytes_reserved >= statistics.peak_bytes_in_use);
  { const Memory small(64); }
  CHECK(memory_statistics().peak_bytes_in_use == statistics.peak_bytes_in_use);
}

TEST_CASE("an impossible request throws bad_alloc and leaves the pool unchanged") {
  const Memory held(1'000'000);
  const MemoryStatistics before = memory_statistics();
  CHECK_THROWS_AS(Memory{std::numeric_limits<std::size_t>::max()}, std::bad_alloc);
  try {
    const Memory impossible(std::size_t{1} << 60);
    FAIL("there was memory");
  } catch (const OutOfMemory& error) {
    CHECK(error.bytes_wanted() == std::size_t{1} << 60);
    CHECK(error.bytes_in_use() >= 1'000'000);
    CHECK(std::string(error.what()).starts_with("1152921504606.8 MB more were requested, "));
  }
  const MemoryStatistics after = memory_statistics();
  CHECK(after.bytes_in_use == before.bytes_in_use);
  CHECK(after.system_allocations == before.system_allocations);
}

TEST_CASE("require_address_space() accepts small sizes and rejects 2^60 bytes") {
  CHECK_NOTHROW(require_address_space(1'000'000));
  CHECK_THROWS_AS(require_address_space(std::size_t{1} << 60), OutOfMemory);
}

TEST_CASE("blocks in use at the same time do not overlap") {
  std::vector<Memory> held;
  for (std::size_t i = 0; i < 40; ++i) {
    held.emplace_back(300);
    std::memset(held.back().data(), static_cast<int>(i), 300);
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    for (std::size_t k = 0; k < 300; ++k) REQUIRE(held[i].data()[k] == std::byte(i));
  }
}

TEST_CASE("threads can allocate and release blocks at the same time without losing a block") {
  const std::size_t before = pool_bytes();
  const auto work = [] {
    std::vector<Memory> held;
    for (std::size_t i = 0; i < 2000; ++i) {
      held.emplace_back(64 + i % 700);
      if (held.size() > 20) held.erase(held.begin() + static_cast<std::ptrdiff_t>(i % 20));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  CHECK(pool_bytes() == before);
}

TEST_CASE("a handle may be released on a thread that did not allocate it") {
  const std::size_t before = pool_bytes();
  Memory memory(5000);
  std::thread([taken = std::move(memory)] { CHECK(taken.unique()); }).join();
  CHECK(pool_bytes() == before);
}

TEST_SUITE_END();

}  // namespace tapestry::kernels
