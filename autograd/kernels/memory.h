#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace tapestry::kernels {

/// The system has not the memory for a block. Takes none itself, and so can be thrown then.
class OutOfMemory : public std::bad_alloc {
 public:
  OutOfMemory(std::size_t bytes_wanted, std::size_t bytes_in_use) noexcept;

  std::size_t bytes_wanted() const { return bytes_wanted_; }
  std::size_t bytes_in_use() const { return bytes_in_use_; }  ///< of the pool
  /// "1.5 MB more were asked for, 20.0 MB are in use"
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
/// handed out again to the next request of its size class, so that work on sizes seen before takes
/// nothing from the system: first-touch page faults cost more than most kernels. Where the pool
/// would come to hold over a quarter more than was ever in use at once, and 32 MiB, a free block up
/// to twice as large serves too, and free blocks go back to the system before more is taken. The
/// contents of a new block are undefined. Handles may be copied and released on any thread.
class Memory {
 public:
  Memory() = default;
  /// At least `bytes` bytes; throws OutOfMemory if the system has no more.
  explicit Memory(std::size_t bytes);
  Memory(const Memory& other) noexcept;
  Memory(Memory&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Memory& operator=(Memory other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Memory();

  explicit operator bool() const { return block_ != nullptr; }
  std::byte* data() const;
  /// True if no other handle owns the block.
  bool unique() const;

 private:
  detail::Block* block_ = nullptr;
};

/// Gives blocks of 64 KiB or more that nobody uses back to the system, as far as no block in use
/// lies in the same region (memory_region.h): for when much has been released that is not going to
/// be taken again. Happens by itself before OutOfMemory.
void release_unused_memory();

/// Throws OutOfMemory unless the system would give the process so many bytes more. For libraries
/// that do not take a refusal well: ask before they do.
void require_address_space(std::size_t bytes);

/// What the pool holds; a step that only reuses memory leaves `system_allocations` as it was.
struct MemoryStatistics {
  std::uint64_t system_allocations = 0;  ///< blocks ever made, from memory of the system
  std::size_t bytes_reserved = 0;        ///< bytes of the blocks made and kept
  std::size_t bytes_in_use = 0;          ///< of those, bytes handed out now
  std::size_t peak_bytes_in_use = 0;
};
MemoryStatistics memory_statistics();

/// Makes the peak what is in use now, and returns that.
std::size_t restart_memory_peak();

namespace detail {
void* pool_allocate(std::size_t bytes);
void pool_release(void* data) noexcept;
}  // namespace detail

/// Lets standard containers and shared pointers live in the pool.
template <class T>
struct PoolAllocator {
  using value_type = T;

  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) {}  // NOLINT: allocators convert

  T* allocate(std::size_t n) { return static_cast<T*>(detail::pool_allocate(n * sizeof(T))); }
  void deallocate(T* data, std::size_t) noexcept { detail::pool_release(data); }

  template <class U>
  bool operator==(const PoolAllocator<U>&) const {
    return true;
  }
};

}  // namespace tapestry::kernels
