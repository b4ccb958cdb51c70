// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "autograd/error.h"

namespace tapestry {

/// The branches that the elements of piecewise operations take in a first pass, call by call, so
/// that later passes can evaluate the same branches.
///
/// A gradient belongs to the branch at its point, but finite differences may cross a nearby kink:
/// among the many ReLUs of a model, some inputs are always close to 0. A gradient check therefore
/// records the branches at its point and freezes them while it evaluates nearby points, which makes
/// the function smooth without changing its gradient. An element exactly at a kink is not frozen,
/// so that the differences still detect the kink.
///
/// A custom operation supports this with a member `freeze`; see operation.h. A frozen pass computes
/// values only: frozen operations must not be differentiated.
class FrozenBranches {
 public:
  /// The branch of an element that is exactly at a kink and therefore not frozen.
  static constexpr std::int32_t at_kink = -1;

  /// During the lifetime of a Pass, operations on its thread record their branches (first pass) or
  /// evaluate the recorded branches (later passes).
  class Pass {
   public:
    /// Starts a pass on this thread. The first pass for `branches` records them.
    explicit Pass(FrozenBranches& branches) : active_(&branches), branches_(branches) {
      branches.next_ = 0;
    }
    /// Ends the pass; later passes evaluate the recorded branches.
    ~Pass() { branches_.recorded_ = true; }

   private:
    ContextGuard<&ExecutionContext::frozen_branches> active_;
    FrozenBranches& branches_;
  };

  /// The branches to use for the n elements of the next call in this pass; `operation` is the name
  /// of the called operation. `branch(i)` is the branch that element i takes at its current value:
  /// a number >= 0, or at_kink.
  ///
  /// throws  ValueError if this call had a different operation or number of elements in the first
  ///         pass.
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

  std::span<const std::int32_t> recorded_call(const char* operation, std::size_t n) {
    const Call* const call = next_ < calls_.size() ? &calls_[next_++] : nullptr;
    if (call != nullptr && call->operation == operation && call->branches.size() == n) {
      return call->branches;
    }
    const std::string before =
        call == nullptr ? "no further call"
                        : call->operation + " with " + std::to_string(call->branches.size());
    throw ValueError(std::string(operation) + ": called with " + std::to_string(n) +
                     " elements, but the first pass had " + before +
                     " here; expected the same operations in the same order for all values");
  }

  std::vector<Call> calls_;
  bool recorded_ = false;
  std::size_t next_ = 0;
};

}  // namespace tapestry
