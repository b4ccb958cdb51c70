#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace tapestry::kernels::detail {

/// Memory in huge pages, from which blocks are cut one after the other: blocks of whole pages of
/// their own would waste up to a page each, and smaller ones would lie in small pages, of which the
/// machine remembers too few.
class Region {
 public:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
  static constexpr std::size_t usual_bytes = std::size_t{32} << 20;

  /// With room for `bytes`, rounded up to whole pages; throws std::bad_alloc if the system has no
  /// more.
  explicit Region(std::size_t bytes)
      : left_((bytes + huge_page - 1) / huge_page * huge_page),
        memory_(static_cast<std::byte*>(std::aligned_alloc(huge_page, left_)), &std::free),
        next_(memory_.get()) {
    if (next_ == nullptr) throw std::bad_alloc();
    madvise(next_, left_, MADV_HUGEPAGE);  // fewer page faults; failure is harmless
  }

  std::size_t left() const { return left_; }
  /// The next `bytes` <= left().
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

}  // namespace tapestry::kernels::detail
