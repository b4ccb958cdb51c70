// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace tapestry::kernels {

/// Thrown when the system has no memory left for a block. Does not allocate.
class OutOfMemory : public std::bad_alloc {
 public:
  /// The error for a request that the system has rejected.
  OutOfMemory(std::size_t bytes_wanted, std::size_t bytes_in_use) noexcept;

  /// Size of the request in bytes.
  std::size_t bytes_wanted() const { return bytes_wanted_; }
  /// Bytes of the pool that were in use at the time of the request.
  std::size_t bytes_in_use() const { return bytes_in_use_; }
  /// "1.5 MB more were requested, 20.0 MB are in use"
  const char* what() const noexcept override { return message_.data(); }

 private:
  std::size_t bytes_wanted_, bytes_in_use_;
  std::array<char, 96> message_{};
};

namespace detail {
struct Block;
}

/// Shared ownership of a block of memory that starts on a 64-byte boundary.
///
/// Blocks come from one pool for the whole process. A released block stays in the pool and is
/// reused by the next request of its size class, so that repeated work on the same sizes allocates
/// nothing from the system: first-touch page faults cost more than most kernels. If the pool would
/// hold more than the peak use plus a quarter plus 32 MiB, a free block of up to twice the size is
/// used instead, and free blocks are returned to the system before more memory is requested. The
/// contents of a new block are undefined. Handles may be copied and released on any thread.
class Memory {
 public:
  /// A handle without a block.
  Memory() = default;
  /// At least `bytes` bytes; throws OutOfMemory if the system has no more memory.
  explicit Memory(std::size_t bytes);
  /// Another handle to the same block.
  Memory(const Memory& other) noexcept;
  /// Takes the block of `other` and leaves `other` empty.
  Memory(Memory&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  /// Releases the current block and shares the block of `other`.
  Memory& operator=(Memory other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  /// Releases the block; the last handle returns it to the pool.
  ~Memory();

  /// Whether the handle has a block.
  explicit operator bool() const { return block_ != nullptr; }
  /// The first byte, on a 64-byte boundary; null without a block.
  std::byte* data() const;
  /// True if no other handle owns the block.
  bool unique() const;

 private:
  detail::Block* block_ = nullptr;
};

/// Returns free blocks to the system, unless a block in use lies in the same region of huge pages.
/// Call it when the memory will not be needed again. The pool itself does this, for blocks of
/// 64 KiB or more, before it throws OutOfMemory and when it would hold more than its peak use plus
/// a quarter plus 32 MiB.
void release_unused_memory();

/// Throws OutOfMemory unless the system can give the process `bytes` more bytes. Call it before
/// using a library that cannot handle a failed allocation.
void require_address_space(std::size_t bytes);

/// Contents of the pool; a step that only reuses memory leaves `system_allocations` unchanged.
struct MemoryStatistics {
  std::uint64_t system_allocations = 0;  ///< blocks ever allocated from the system
  std::size_t bytes_reserved = 0;        ///< bytes of all blocks, in use or free
  std::size_t bytes_in_use = 0;          ///< bytes of the blocks in use
  std::size_t peak_bytes_in_use = 0;     ///< maximum of bytes_in_use, see restart_memory_peak()
};
/// The current statistics of the pool, over all threads.
MemoryStatistics memory_statistics();

/// Resets the peak to the number of bytes in use, and returns this number.
std::size_t restart_memory_peak();

namespace detail {
void* pool_allocate(std::size_t bytes);
void pool_release(void* data) noexcept;

/// Replaces the pool: each block is allocated with exactly the requested size and freed as soon as
/// it is released. For tests, which place blocks next to unreadable pages
/// (tests/support/guarded_memory.h).
struct BlockSource {
  void* (*allocate)(std::size_t bytes);  ///< throws std::bad_alloc
  void (*release)(void* data) noexcept;
  /// 64 bytes, on a 64-byte boundary, that belong to the block at `data` but are stored elsewhere.
  void* (*head)(void* data) noexcept;
};

/// Makes all blocks come from `source`; throws std::logic_error if the pool already has blocks.
void set_block_source(const BlockSource& source);

/// Whether set_block_source() was called. If so, scratch memory reallocates at every size change.
bool has_block_source();

}  // namespace detail

/// Allocates standard containers and shared pointers from the pool.
template <class T>
struct PoolAllocator {
  /// Required by the standard.
  using value_type = T;

  /// All allocators are equal.
  PoolAllocator() = default;
  /// Converts from an allocator of another type, as required by the standard.
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) {
  }  // NOLINT(google-explicit-constructor): allocators convert

  /// Uninitialized memory for n objects of type T. Throws OutOfMemory.
  T* allocate(std::size_t n) { return static_cast<T*>(detail::pool_allocate(n * sizeof(T))); }
  /// Returns memory from allocate() to the pool.
  void deallocate(T* data, std::size_t) noexcept { detail::pool_release(data); }

  /// True: memory of one allocator may be released by another.
  template <class U>
  bool operator==(const PoolAllocator<U>&) const {
    return true;
  }
};

}  // namespace tapestry::kernels
