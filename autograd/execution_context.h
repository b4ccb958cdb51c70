// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <type_traits>
#include <utility>

namespace tapestry {

class AttentionRecorder;
class AttentionTracer;
class FrozenBranches;
class PackedWeights;
class Profiler;
class Tape;

/// The state of a thread that operations depend on, in addition to their arguments. Each member is
/// the innermost object of its type on this thread, or null; the constructor and destructor of the
/// object set the member with a ContextGuard. `apply` (operation.h) reads the context.
struct ExecutionContext {
  Tape* tape = nullptr;                             ///< records operations; null under NoGrad
  const std::string* layer_path = nullptr;          ///< see LayerPath
  Profiler* profiler = nullptr;                     ///< measures operations
  FrozenBranches* frozen_branches = nullptr;        ///< records or freezes branches
  PackedWeights* packed_weights = nullptr;          ///< keeps copies of weights for inference
  AttentionRecorder* attention_recorder = nullptr;  ///< keeps attention weights
  AttentionTracer* attention_tracer = nullptr;      ///< observes the steps of attention
};

namespace detail {
inline constinit thread_local ExecutionContext thread_context;
}

/// The context of this thread.
inline ExecutionContext& execution_context() { return detail::thread_context; }
/// @cond
/// Sets a member of the thread's context; the destructor restores the previous value.
template <auto member>
class ContextGuard {
 public:
  using Value = std::remove_reference_t<decltype(std::declval<ExecutionContext&>().*member)>;

  explicit ContextGuard(Value value) : outer_(std::exchange(execution_context().*member, value)) {}
  ~ContextGuard() { execution_context().*member = outer_; }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  Value outer_;
};
/// @endcond
}  // namespace tapestry
