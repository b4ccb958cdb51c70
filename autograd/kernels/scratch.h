#pragma once

#include <cstddef>

#include "autograd/kernels/block_source.h"
#include "autograd/kernels/memory.h"

namespace tapestry::kernels {

/// Memory that a thread keeps from one use to the next: for pieces of work so small that the pool,
/// which all threads share, would cost as much as they do. Make it `thread_local`.
class Scratch {
 public:
  /// Room for n values with undefined contents, until the next call.
  template <class T>
  T* of(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    if (bytes > bytes_ || (bytes < bytes_ && detail::has_block_source())) {
      memory_ = Memory();  // not {}, which clang 14 forgets to destroy in a template
      memory_ = Memory(bytes);
      bytes_ = bytes;
    }
    return reinterpret_cast<T*>(memory_.data());
  }

 private:
  Memory memory_;
  std::size_t bytes_ = 0;
};

}  // namespace tapestry::kernels
