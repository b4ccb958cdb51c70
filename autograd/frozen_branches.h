#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tapestry {

/// The branches that the elements of piecewise operations took in a first pass, call by call, so
/// that later passes can evaluate the same branches.
///
/// A gradient belongs to the branch that its point lies in, but finite differences cross the kinks
/// around it: of the hundred thousand ReLUs of a model some are always close enough. A gradient
/// check therefore records the branches at its point and freezes them while it moves away, which
/// makes the function smooth with the same gradient. An element exactly at a kink is not frozen, so
/// that differences still detect the kink.
///
/// A custom operation supports this by calling `active()` in its forward; see relu and max. Frozen
/// passes give values only: the gradients of frozen operations are not those of their branches.
class FrozenBranches {
 public:
  /// The branch of an element that is at a kink, and is not frozen.
  static constexpr std::int32_t at_kink = -1;

  /// While one is alive, operations on its thread record their branches (first pass), or evaluate
  /// the recorded ones (later passes).
  class Pass {
   public:
    explicit Pass(FrozenBranches& branches);
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    FrozenBranches& branches_;
    FrozenBranches* outer_;
  };

  /// The branches of the innermost pass on this thread, or null.
  static FrozenBranches* active() { return active_; }

  /// The branches of the n elements of the next call in this pass, by the operation of this name.
  /// `branch(i)` gives the present branch of element i: a number >= 0, or at_kink.
  ///
  /// throws  ValueError if the first pass had another operation or number of elements here.
  template <class Branch>
  std::span<const std::int32_t> next(const char* operation, std::size_t n, const Branch& branch) {
    if (recorded_) return recorded_call(operation, n);
    calls_.push_back({operation, std::vector<std::int32_t>(n)});
    std::vector<std::int32_t>& branches = calls_.back().branches;
    for (std::size_t i = 0; i < n; ++i) branches[i] = branch(i);
    return branches;
  }

 private:
  struct Call {
    std::string operation;
    std::vector<std::int32_t> branches;
  };

  std::span<const std::int32_t> recorded_call(const char* operation, std::size_t n);

  static inline constinit thread_local FrozenBranches* active_ = nullptr;

  std::vector<Call> calls_;
  bool recorded_ = false;
  std::size_t next_ = 0;
};

}  // namespace tapestry
