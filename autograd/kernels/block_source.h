#pragma once

#include <cstddef>

namespace tapestry::kernels::detail {

/// Replaces the pool: each block is allocated with exactly the requested size and freed at once.
/// For tests, which place blocks beside unreadable pages (tests/support/guarded_memory.h).
struct BlockSource {
  void* (*take)(std::size_t bytes);  ///< throws std::bad_alloc
  void (*give_back)(void* data) noexcept;
  /// 64 bytes, on a 64-byte boundary, that belong to the block at `data` but lie elsewhere.
  void* (*head_of)(void* data) noexcept;
};

/// From now on all blocks come from `source`; throws std::logic_error once there are blocks.
void set_block_source(const BlockSource& source);

/// Whether set_block_source() was called. Scratch memory then reallocates for every change of size.
bool has_block_source();

}  // namespace tapestry::kernels::detail
