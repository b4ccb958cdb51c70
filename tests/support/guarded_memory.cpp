// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>

#include "autograd/kernels/memory.h"

/// Slots of 1, 2, 4, ... readable pages, each followed by an unreadable page. A released slot stays
/// readable and is reused, so that nothing is allocated from the system after warm-up.
///
/// operator new uses this before any constructor has run, so all state has constant initializers.
namespace tapestry::test {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t classes = 16;                            // up to 128 MiB
constexpr std::size_t bytes_per_class = std::size_t{1} << 30;  // of address space
/// Maximum number of slots of one class. Each slot takes two of a process's 65,530 mappings.
constexpr std::size_t max_slots = 20'000;
constexpr std::size_t head_bytes = 64;

[[noreturn]] void fail(std::string_view message) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  std::abort();
}

std::byte* reserve(std::size_t bytes, int protection) {
  void* const memory =
      ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("guarded memory: out of address space\n");
  return static_cast<std::byte*>(memory);
}

/// Slots of one size.
class SlotClass {
 public:
  void open(std::byte* begin, std::size_t readable_bytes) {
    first_ = begin + page;
    readable_ = readable_bytes;
    heads_ = reserve(max_slots * head_bytes, PROT_READ | PROT_WRITE);
  }

  /// The first readable byte of a free slot, or null.
  std::byte* allocate() {
    if (free_ != 0) {
      const std::size_t slot = free_ - 1;
      std::memcpy(&free_, head(slot), sizeof(free_));
      return begin_of(slot);
    }
    if (made_ == max_slots || (made_ + 2) * stride() > bytes_per_class) return nullptr;
    std::byte* const begin = begin_of(made_);
    if (::mprotect(begin, readable_, PROT_READ | PROT_WRITE) != 0) return nullptr;
    ++made_;
    return begin;
  }
  void release(const std::byte* data) {
    const std::size_t slot = slot_of(data);
    std::memcpy(head(slot), &free_, sizeof(free_));
    free_ = slot + 1;
  }
  std::byte* head_of(const std::byte* data) const { return head(slot_of(data)); }
  std::size_t readable() const { return readable_; }

 private:
  std::size_t stride() const { return readable_ + page; }
  std::byte* begin_of(std::size_t slot) const { return first_ + slot * stride(); }
  std::byte* head(std::size_t slot) const { return heads_ + slot * head_bytes; }
  std::size_t slot_of(const std::byte* data) const {
    return static_cast<std::size_t>(data - first_) / stride();
  }

  std::byte* first_ = nullptr;
  std::byte* heads_ = nullptr;
  std::size_t readable_ = 0;
  std::size_t made_ = 0;
  std::size_t free_ = 0;  ///< 1 + the slot released last
};

class Arena {
 public:
  std::byte* allocate(std::size_t bytes, Guard side) {
    const std::size_t pages = bytes <= page ? 1 : (bytes - 1) / page + 1;
    const auto size_class = static_cast<std::size_t>(std::bit_width(pages - 1));
    if (size_class >= classes) return nullptr;
    const std::lock_guard lock(mutex_);
    if (begin_ == nullptr) open();
    std::byte* const begin = of_size_[size_class].allocate();
    if (begin == nullptr) return nullptr;
    std::byte* const end = begin + of_size_[size_class].readable();
    if (bytes == 0) return end + head_bytes;
    return side == Guard::front ? begin : end - bytes;
  }
  void release(std::byte* data) {
    const std::lock_guard lock(mutex_);
    of_size_[class_of(data)].release(data);
  }
  std::byte* head_of(const std::byte* data) const { return of_size_[class_of(data)].head_of(data); }
  bool contains(const void* data) const {
    const auto* const at = static_cast<const std::byte*>(data);
    return begin_ != nullptr && at >= begin_ && at < begin_ + classes * bytes_per_class;
  }

 private:
  void open() {
    begin_ = reserve(classes * bytes_per_class, PROT_NONE);
    for (std::size_t i = 0; i < classes; ++i) {
      of_size_[i].open(begin_ + i * bytes_per_class, page << i);
    }
  }
  std::size_t class_of(const std::byte* data) const {
    return static_cast<std::size_t>(data - begin_) / bytes_per_class;
  }

  std::mutex mutex_;
  std::byte* begin_ = nullptr;
  std::array<SlotClass, classes> of_size_{};
};

constinit Arena arena;

Guard guard_of_environment() {
  const char* const value = std::getenv("TAPESTRY_GUARD");
  if (value == nullptr) return Guard::none;
  if (std::string_view(value) == "back") return Guard::back;
  if (std::string_view(value) == "front") return Guard::front;
  fail("TAPESTRY_GUARD: expected back or front\n");
}

void* allocate_or_throw(std::size_t bytes) {
  void* const data = allocate_guarded(bytes, guard());
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

void* head_of(void* data) noexcept { return arena.head_of(static_cast<std::byte*>(data)); }

constexpr kernels::detail::BlockSource source{
    .allocate = allocate_or_throw, .release = release_guarded, .head = head_of};

/// Constructed before other static objects, which may allocate blocks.
struct Start {
  Start() {
    if (guard() != Guard::none) kernels::detail::set_block_source(source);
  }
};
[[gnu::init_priority(101)]] const Start start;

}  // namespace

Guard guard() noexcept {
  static const Guard of_this_run = guard_of_environment();
  return of_this_run;
}

void* allocate_guarded(std::size_t bytes, Guard side) noexcept {
  std::byte* const data = arena.allocate(bytes, side);
  if (data != nullptr) std::memset(data, 0xff, bytes);
  return data;
}

void release_guarded(void* data) noexcept { arena.release(static_cast<std::byte*>(data)); }

bool is_guarded(const void* data) noexcept { return arena.contains(data); }

}  // namespace tapestry::test
