#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "autograd/execution_context.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Keeps the weights of linear() in the order in which matrix products read them, for inference
/// that applies the same weights to few rows many times. Results have the same bits; the copies
/// take as much memory as the weights, until the end of its lifetime. Weights must not change
/// meanwhile.
///
///     const PackedWeights packed;
///     while (...) decoder->extend(tokens);
///
/// It holds for the thread that made it. They nest; the outermost one keeps the copies. Threads
/// that apply the same weights can share them:
///
///     PackedWeights* const outer = execution_context().packed_weights;
///     parallel_for(parts, [&](std::size_t i) {
///       const PackedWeights packed(outer);
///       ...
///     });
class PackedWeights {
 public:
  /// Becomes active, unless there is one already.
  ///
  /// outer  the one that is active during this one's lifetime, of this thread or of another;
  ///        null: this one
  explicit PackedWeights(PackedWeights* outer = execution_context().packed_weights)
      : active_(outer != nullptr ? outer : this) {}

  /// For operations: the copy of a weight, made by `pack` at its first use. All calls with a weight
  /// have the same type `Packed`. Several threads may call it at once.
  template <class Packed, class Pack>
  std::shared_ptr<const Packed> find(const Tensor& weight, const Pack& pack) {
    const void* const key = weight.memory().data() + weight.byte_offset();
    const auto find_copy = [&]() -> std::shared_ptr<const Packed> {
      const auto found = copies_.find(key);
      if (found == copies_.end() || found->second.weight.shape() != weight.shape()) return nullptr;
      return std::static_pointer_cast<const Packed>(found->second.packed);
    };
    {
      const std::shared_lock lock(mutex_);
      if (auto copy = find_copy()) return copy;
    }
    const std::unique_lock lock(mutex_);
    if (auto copy = find_copy()) return copy;  // another thread has made it meanwhile
    auto copy = std::make_shared<const Packed>(pack());
    copies_.insert_or_assign(key, Copy{weight, copy});
    return copy;
  }

 private:
  struct Copy {
    Tensor weight;  // so that no other weight gets its address
    std::shared_ptr<const void> packed;
  };

  ContextGuard<&ExecutionContext::packed_weights> active_;
  std::shared_mutex mutex_;  // of copies_
  std::unordered_map<const void*, Copy> copies_;
};

}  // namespace tapestry
