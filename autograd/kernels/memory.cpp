#include "autograd/kernels/memory.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace tapestry::kernels {
namespace detail {

inline constexpr std::size_t alignment = 64;
inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// The head of every block; its bytes follow at the next 64-byte boundary.
struct alignas(alignment) Block {
  std::atomic<std::uint32_t> owners;
  std::uint32_t size_class;
  Block* next_free;

  std::byte* data() { return reinterpret_cast<std::byte*>(this) + sizeof(Block); }
  static Block* of(void* data) {
    return reinterpret_cast<Block*>(static_cast<std::byte*>(data) - sizeof(Block));
  }
};

namespace {

/// Four classes for each power of two: beyond 256 bytes, a request wastes less than a fifth of its
/// block.
std::uint32_t class_of(std::size_t bytes) {
  if (bytes <= alignment) return 0;
  const std::size_t units = (bytes - 1) / alignment;  // >= 1
  const auto power = static_cast<std::uint32_t>(std::bit_width(units) - 1);
  const std::size_t quarter =
      power < 2 ? units - (std::size_t{1} << power) : (units >> (power - 2)) & 3U;
  return 1 + 4 * power + static_cast<std::uint32_t>(quarter);
}

std::size_t class_bytes(std::uint32_t size_class) {
  if (size_class == 0) return alignment;
  const std::uint32_t power = (size_class - 1) / 4;
  const std::size_t quarter = (size_class - 1) % 4;
  const std::size_t units =
      power < 2 ? (std::size_t{1} << power) + quarter + 1 : ((quarter + 5) << (power - 2));
  return units * alignment;
}

class Pool {
 public:
  Block* take(std::size_t bytes) {
    if (bytes > std::numeric_limits<std::size_t>::max() / 4) throw std::bad_alloc();
    const std::uint32_t size_class = class_of(bytes);
    const std::lock_guard lock(mutex_);
    Block* block = free_[size_class];
    if (block != nullptr) {
      free_[size_class] = block->next_free;
    } else {
      block = take_from_system(size_class);
    }
    statistics_.bytes_in_use += class_bytes(size_class);
    statistics_.peak_bytes_in_use =
        std::max(statistics_.peak_bytes_in_use, statistics_.bytes_in_use);
    block->owners.store(1, std::memory_order_relaxed);
    ASAN_UNPOISON_MEMORY_REGION(block->data(), bytes);
    return block;
  }

  void give_back(Block* block) noexcept {
    ASAN_POISON_MEMORY_REGION(block->data(), class_bytes(block->size_class));
    const std::lock_guard lock(mutex_);
    statistics_.bytes_in_use -= class_bytes(block->size_class);
    block->next_free = free_[block->size_class];
    free_[block->size_class] = block;
  }

  MemoryStatistics statistics() {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  Block* take_from_system(std::uint32_t size_class) {
    const std::size_t bytes = sizeof(Block) + class_bytes(size_class);
    const bool large = bytes >= 2 * huge_page;
    const std::size_t unit = large ? huge_page : alignment;
    const std::size_t rounded = (bytes + unit - 1) / unit * unit;
    void* memory = std::aligned_alloc(unit, rounded);
    if (memory == nullptr) throw std::bad_alloc();
    if (large) madvise(memory, rounded, MADV_HUGEPAGE);  // fewer page faults; failure is harmless
    auto* block = new (memory) Block{.owners = 0, .size_class = size_class, .next_free = nullptr};
    ASAN_POISON_MEMORY_REGION(block->data(), class_bytes(size_class));
    ++statistics_.system_allocations;
    statistics_.bytes_reserved += rounded;
    return block;
  }

  std::mutex mutex_;
  std::array<Block*, 256> free_{};
  MemoryStatistics statistics_;
};

/// Never destroyed: handles in static storage may be released after it would have been.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

}  // namespace

void* pool_allocate(std::size_t bytes) { return pool().take(bytes)->data(); }
void pool_release(void* data) noexcept { pool().give_back(Block::of(data)); }

}  // namespace detail

Memory::Memory(std::size_t bytes) : block_(detail::pool().take(bytes)) {}

Memory::Memory(const Memory& other) noexcept : block_(other.block_) {
  if (block_ != nullptr) block_->owners.fetch_add(1, std::memory_order_relaxed);
}

Memory::~Memory() {
  if (block_ != nullptr && block_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    detail::pool().give_back(block_);
  }
}

std::byte* Memory::data() const { return block_ == nullptr ? nullptr : block_->data(); }

bool Memory::unique() const {
  return block_ != nullptr && block_->owners.load(std::memory_order_acquire) == 1;
}

MemoryStatistics memory_statistics() { return detail::pool().statistics(); }

}  // namespace tapestry::kernels
