// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/namespace.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {

/// Memory that a thread keeps between uses, for pieces of work so small that a request to the
/// shared pool would cost as much as the work. Make it `thread_local`.
class Scratch {
 public:
  /// n values with undefined contents, valid until the next call.
  template <class T>
  T* array(std::size_t n) {
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

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
