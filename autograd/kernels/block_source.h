#pragma once

#include <cstddef>

namespace tapestry::kernels::detail {

/// Memory for blocks in place of the pool's: every block is taken, of exactly the bytes that were
/// asked for, and given back. For tests, which place blocks beside unreadable pages
/// (tests/support/guarded_memory.h).
struct BlockSource {
  void* (*take)(std::size_t bytes);  ///< throws std::bad_alloc
  void (*give_back)(void* data) noexcept;
  /// 64 bytes, on a 64-byte boundary, that belong to the block at `data` but lie elsewhere.
  void* (*head_of)(void* data) noexcept;
};

/// From now on all blocks come from `source`; throws std::logic_error once there are blocks.
void set_block_source(const BlockSource& source);

/// True after that. Who keeps memory for later use then keeps none of another size.
bool has_block_source();

}  // namespace tapestry::kernels::detail
