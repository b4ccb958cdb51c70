// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

#if defined(TAPESTRY_ASAN)
#include <sanitizer/asan_interface.h>
#define TAPESTRY_SEPARATE_BLOCKS true
#else
#define TAPESTRY_SEPARATE_BLOCKS false
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace tapestry::kernels {

OutOfMemory::OutOfMemory(std::size_t bytes_wanted, std::size_t bytes_in_use) noexcept
    : bytes_wanted_(bytes_wanted), bytes_in_use_(bytes_in_use) {
  const auto megabytes = [](std::size_t bytes) { return 1e-6 * static_cast<double>(bytes); };
  std::snprintf(message_.data(), message_.size(), "%.1f MB more were requested, %.1f MB are in use",
                megabytes(bytes_wanted), megabytes(bytes_in_use));
}

namespace detail {

inline constexpr std::size_t alignment = 64;
/// Blocks of at least this size are cut from regions; a sanitizer can guard their ends only if they
/// are allocated separately.
inline constexpr std::size_t min_region_block =
    TAPESTRY_SEPARATE_BLOCKS ? std::numeric_limits<std::size_t>::max() : std::size_t{1} << 16;
inline constexpr std::size_t max_bytes = std::numeric_limits<std::size_t>::max() / 4;
/// The pool returns free blocks of at least this size to the system automatically. It returns
/// smaller blocks, which may be numerous, only in release_unused_memory().
inline constexpr std::size_t min_released_block = std::size_t{1} << 16;

/// Memory in huge pages, cut into consecutive blocks. Separate huge pages for each block would
/// waste up to a page per block; small pages would cause TLB misses.
class Region {
 public:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
  static constexpr std::size_t usual_bytes = std::size_t{32} << 20;

  /// Has room for `bytes`, rounded up to whole pages; throws std::bad_alloc if the system has no
  /// memory left.
  explicit Region(std::size_t bytes)
      : left_((bytes + huge_page - 1) / huge_page * huge_page),
        memory_(static_cast<std::byte*>(std::aligned_alloc(huge_page, left_)), &std::free),
        next_(memory_.get()) {
    if (next_ == nullptr) throw std::bad_alloc();
    madvise(next_, left_, MADV_HUGEPAGE);  // fewer page faults; failure is harmless
  }

  std::size_t left() const { return left_; }
  /// The next `bytes` bytes; requires bytes <= left().
  void* cut(std::size_t bytes) {
    left_ -= bytes;
    next_ += bytes;
    return next_ - bytes;
  }

  std::size_t blocks_in_use = 0;

 private:
  std::size_t left_;
  std::unique_ptr<std::byte, decltype(&std::free)> memory_;
  std::byte* next_;
};

/// The header of every block; the bytes of the block follow at the next 64-byte boundary, unless
/// they come from a BlockSource.
struct alignas(alignment) Block {
  std::atomic<std::uint32_t> owners;
  std::uint32_t size_class;
  Block* next_free;
  Region* region;  ///< null for a block that is allocated separately
  std::byte* data;
};

namespace {

constexpr std::uint32_t classes_per_power_of_two = 4;

/// Beyond 256 bytes, a request wastes less than a fifth of its block.
std::uint32_t find_size_class(std::size_t bytes) {
  if (bytes <= alignment) return 0;
  const std::size_t units = (bytes - 1) / alignment;  // >= 1
  const auto power = static_cast<std::uint32_t>(std::bit_width(units) - 1);
  const std::size_t quarter =
      power < 2 ? units - (std::size_t{1} << power) : (units >> (power - 2)) & 3U;
  return 1 + classes_per_power_of_two * power + static_cast<std::uint32_t>(quarter);
}

std::size_t class_bytes(std::uint32_t size_class) {
  if (size_class == 0) return alignment;
  const std::uint32_t power = (size_class - 1) / classes_per_power_of_two;
  const std::size_t quarter = (size_class - 1) % classes_per_power_of_two;
  const std::size_t units =
      power < 2 ? (std::size_t{1} << power) + quarter + 1 : ((quarter + 5) << (power - 2));
  return units * alignment;
}

class Pool {
 public:
  Block* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Block* const block = source_ != nullptr ? allocate_from_source(bytes) : take_free_or_new(bytes);
    if (block->region != nullptr) ++block->region->blocks_in_use;
    statistics_.bytes_in_use += class_bytes(block->size_class);
    statistics_.peak_bytes_in_use =
        std::max(statistics_.peak_bytes_in_use, statistics_.bytes_in_use);
    block->owners.store(1, std::memory_order_relaxed);
    ASAN_UNPOISON_MEMORY_REGION(block->data, bytes);
    return block;
  }

  void release(Block* block) noexcept {
    const std::lock_guard lock(mutex_);
    statistics_.bytes_in_use -= class_bytes(block->size_class);
    if (source_ != nullptr) return release_to_source(block);
    ASAN_POISON_MEMORY_REGION(block->data, class_bytes(block->size_class));
    if (block->region != nullptr) --block->region->blocks_in_use;
    may_release_ = may_release_ || can_be_released(*block);
    block->next_free = free_[block->size_class];
    free_[block->size_class] = block;
  }

  Block* block_at(void* data) const noexcept {
    void* const head =
        source_ != nullptr ? source_->head(data) : static_cast<std::byte*>(data) - sizeof(Block);
    return static_cast<Block*>(head);
  }

  void use(const BlockSource& source) {
    const std::lock_guard lock(mutex_);
    if (statistics_.system_allocations > 0) {
      throw std::logic_error("set_block_source: blocks have already been allocated");
    }
    source_ = &source;
  }
  bool has_source() const { return source_ != nullptr; }

  void release_unused() {
    const std::lock_guard lock(mutex_);
    release_unused_locked(0);
  }

  std::size_t restart_peak() {
    const std::lock_guard lock(mutex_);
    return statistics_.peak_bytes_in_use = statistics_.bytes_in_use;
  }

  MemoryStatistics statistics() {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

  std::uint64_t searches() {
    const std::lock_guard lock(mutex_);
    return searches_;
  }

 private:
  static std::size_t whole_size(std::uint32_t size_class) {
    return sizeof(Block) + class_bytes(size_class);
  }

  Block* allocate_from_source(std::size_t bytes) try {
    void* const data = source_->allocate(bytes);
    ++statistics_.system_allocations;
    const std::uint32_t size_class = find_size_class(bytes);
    statistics_.bytes_reserved += whole_size(size_class);
    return new (source_->head(data)) Block{.owners = 0,
                                           .size_class = size_class,
                                           .next_free = nullptr,
                                           .region = nullptr,
                                           .data = static_cast<std::byte*>(data)};
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(bytes, statistics_.bytes_in_use);
  }

  void release_to_source(Block* block) noexcept {
    statistics_.bytes_reserved -= whole_size(block->size_class);
    source_->release(block->data);
  }

  /// Returns a free block of the size class, or else a new block. If a new block would make the
  /// pool exceed its limit, returns a larger free block instead, or first returns free blocks to
  /// the system.
  Block* take_free_or_new(std::size_t bytes) {
    if (bytes > max_bytes) throw OutOfMemory(bytes, statistics_.bytes_in_use);
    const std::uint32_t size_class = find_size_class(bytes);
    if (Block* const block = take_free(size_class, size_class)) return block;
    if (would_keep_too_much(whole_size(size_class))) {
      const bool may_be_larger = class_bytes(size_class) >= min_released_block;
      const std::uint32_t largest = size_class + (may_be_larger ? classes_per_power_of_two : 0);
      if (Block* const block = take_free(size_class, largest)) return block;
      if (may_release_) release_unused_locked();
    }
    try {
      return take_from_system(size_class);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(bytes, statistics_.bytes_in_use);
    }
  }

  /// A free block of the smallest of these size classes that has free blocks, or null.
  Block* take_free(std::uint32_t smallest, std::uint32_t largest) {
    for (std::uint32_t size_class = smallest; size_class <= largest; ++size_class) {
      Block* const block = free_[size_class];
      if (block == nullptr) continue;
      free_[size_class] = block->next_free;
      return block;
    }
    return nullptr;
  }

  /// Requests for more and more different sizes must not make the pool much larger than its peak
  /// use: a memory limit may kill the process instead of failing an allocation.
  bool would_keep_too_much(std::size_t bytes) const {
    constexpr std::size_t always_kept = Region::usual_bytes;
    const std::size_t peak =
        std::max(statistics_.peak_bytes_in_use, statistics_.bytes_in_use + bytes);
    return statistics_.bytes_reserved + bytes > peak + peak / 4 + always_kept;
  }

  /// Allocates a new block; if necessary, first returns unused memory to the system. Throws
  /// std::bad_alloc.
  Block* take_from_system(std::uint32_t size_class) {
    while (true) {
      try {
        return new_block(size_class);
      } catch (const std::bad_alloc&) {
        if (release_unused_locked() == 0) throw;
      }
    }
  }

  Block* new_block(std::uint32_t size_class) {
    const std::size_t bytes = whole_size(size_class);
    Region* const region = bytes < min_region_block ? nullptr : &region_with_room(bytes);
    void* const memory =
        region != nullptr ? region->cut(bytes) : std::aligned_alloc(alignment, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    auto* const block = new (memory) Block{.owners = 0,
                                           .size_class = size_class,
                                           .next_free = nullptr,
                                           .region = region,
                                           .data = static_cast<std::byte*>(memory) + sizeof(Block)};
    ASAN_POISON_MEMORY_REGION(block->data, class_bytes(size_class));
    ++statistics_.system_allocations;
    statistics_.bytes_reserved += bytes;
    return block;
  }

  Region& region_with_room(std::size_t bytes) {
    for (const auto& region : regions_) {
      if (region->left() >= bytes) return *region;
    }
    regions_.push_back(new_region(bytes));
    return *regions_.back();
  }

  /// A region of the usual size, or of the required size if the system has less memory.
  static std::unique_ptr<Region> new_region(std::size_t bytes) try {
    return std::make_unique<Region>(std::max(bytes, Region::usual_bytes));
  } catch (const std::bad_alloc&) {
    return std::make_unique<Region>(bytes);
  }

  /// Whether a free block can be returned to the system: all blocks of its region are free, or,
  /// without a region, the block is large enough.
  static bool can_be_released(const Block& block, std::size_t smallest = min_released_block) {
    return block.region != nullptr ? block.region->blocks_in_use == 0
                                   : class_bytes(block.size_class) >= smallest;
  }

  /// Returns the number of bytes that were released.
  std::size_t release_unused_locked(std::size_t smallest = min_released_block) {
    ++searches_;
    may_release_ = false;
    const std::size_t before = statistics_.bytes_reserved;
    for (Block*& first : free_) {
      for (Block** link = &first; *link != nullptr;) {
        Block* const block = *link;
        if (!can_be_released(*block, smallest)) {
          link = &block->next_free;
          continue;
        }
        *link = block->next_free;
        statistics_.bytes_reserved -= whole_size(block->size_class);
        ASAN_UNPOISON_MEMORY_REGION(block->data, class_bytes(block->size_class));
        if (block->region == nullptr) std::free(block);
      }
    }
    std::erase_if(regions_, [](const auto& region) { return region->blocks_in_use == 0; });
    return before - statistics_.bytes_reserved;
  }

  std::mutex mutex_;
  std::array<Block*, 256> free_{};
  std::vector<std::unique_ptr<Region>> regions_;
  MemoryStatistics statistics_;
  /// Whether a block that can be returned to the system was freed since the last search for such
  /// blocks. A search visits all free blocks, so it must not run at every request.
  bool may_release_ = false;
  std::uint64_t searches_ = 0;
  const BlockSource* source_ = nullptr;
};

/// Never destroyed: handles in static storage may be released after static destruction.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

}  // namespace

void* pool_allocate(std::size_t bytes) { return pool().allocate(bytes)->data; }
void pool_release(void* data) noexcept { pool().release(pool().block_at(data)); }

void set_block_source(const BlockSource& source) { pool().use(source); }
bool has_block_source() { return pool().has_source(); }

/// Number of searches for blocks to release; declared by the test that uses it.
std::uint64_t searches_for_unused() { return pool().searches(); }

}  // namespace detail

Memory::Memory(std::size_t bytes) : block_(detail::pool().allocate(bytes)) {}

Memory::Memory(const Memory& other) noexcept : block_(other.block_) {
  if (block_ != nullptr) block_->owners.fetch_add(1, std::memory_order_relaxed);
}

Memory::~Memory() {
  if (block_ != nullptr && block_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    detail::pool().release(block_);
  }
}

std::byte* Memory::data() const { return block_ == nullptr ? nullptr : block_->data; }

bool Memory::unique() const {
  return block_ != nullptr && block_->owners.load(std::memory_order_acquire) == 1;
}

void release_unused_memory() { detail::pool().release_unused(); }

void require_address_space(std::size_t bytes) {
  // Does not use operator new: the compiler may remove an allocation that is deleted immediately.
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) throw OutOfMemory(bytes, memory_statistics().bytes_in_use);
  ::munmap(room, bytes);
}

MemoryStatistics memory_statistics() { return detail::pool().statistics(); }

std::size_t restart_memory_peak() { return detail::pool().restart_peak(); }

}  // namespace tapestry::kernels
