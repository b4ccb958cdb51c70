// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "autograd/kernels/memory.h"

namespace tapestry::test {

/// Measures the bytes allocated from the memory pool during its lifetime.
///
/// If the pool keeps much more memory than is in use, which depends on earlier tests, it may
/// satisfy a request with a larger free block. To prevent this, PoolUse holds one large block that
/// is never touched, so that each request gets a block of its size class.
class PoolUse {
 public:
  PoolUse() {
    kernels::release_unused_memory();
    untouched_ = kernels::Memory(4 * kernels::memory_statistics().bytes_reserved);
    before_ = kernels::restart_memory_peak();
  }
  ~PoolUse() {
    untouched_ = {};
    kernels::release_unused_memory();  // other tests limit the address space
  }
  PoolUse(const PoolUse&) = delete;
  PoolUse& operator=(const PoolUse&) = delete;

  /// Bytes in use now, minus the bytes in use at the start.
  std::size_t bytes() const { return kernels::memory_statistics().bytes_in_use - before_; }
  /// Maximum of bytes() since the start.
  std::size_t peak() const { return kernels::memory_statistics().peak_bytes_in_use - before_; }

 private:
  kernels::Memory untouched_;
  std::size_t before_ = 0;
};

}  // namespace tapestry::test
