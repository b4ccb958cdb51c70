#pragma once

#include <memory>
#include <unordered_map>

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
/// It holds for the thread that made it. They nest; the outermost one keeps the copies.
class PackedWeights {
 public:
  /// Becomes active unless there is one already.
  PackedWeights() : is_outermost_(active_ == nullptr) {
    if (is_outermost_) active_ = this;
  }
  ~PackedWeights() {
    if (is_outermost_) active_ = nullptr;
  }
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  /// The active one of this thread, or null.
  static PackedWeights* active() { return active_; }

  /// For operations: the copy of a weight, made by `pack` at its first use. All calls with a weight
  /// have the same type `Packed`.
  template <class Packed, class Pack>
  const Packed& find(const Tensor& weight, const Pack& pack) {
    Copy& copy = copies_[weight.memory().data() + weight.byte_offset()];
    if (copy.packed == nullptr || copy.weight.shape() != weight.shape()) {
      copy = {weight, std::make_shared<Packed>(pack())};
    }
    return *static_cast<const Packed*>(copy.packed.get());
  }

 private:
  struct Copy {
    Tensor weight;  // so that no other weight gets its address
    std::shared_ptr<const void> packed;
  };

  static inline constinit thread_local PackedWeights* active_ = nullptr;

  bool is_outermost_;
  std::unordered_map<const void*, Copy> copies_;
};

}  // namespace tapestry
