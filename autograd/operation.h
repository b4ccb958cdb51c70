// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/execution_context.h"
#include "autograd/profiler.h"
#include "autograd/tape.h"

/// \file
/// How to define an operation, inside or outside of this library. An operation is a value type with
/// a name, forward and backward, and a function that applies it:
///
///     /// y = w x^2 with broadcasting; dL/dw = dL/dy x^2 and dL/dx = dL/dy 2 w x.
///     struct WeightedSquare {
///       static constexpr const char* name = "weighted_square";  // for error messages
///       static constexpr const char* formula = "y = w x²";      // used by `explain`;
///       static constexpr const char* derivative =               // both may be omitted
///           "dL/dw = dL/dy x², dL/dx = dL/dy 2 w x";
///       Tensor w{}, x{};                                        // saved for backward
///
///       Tensor forward(const Tensor& weight, const Tensor& input) {
///         w = weight;
///         x = input;
///         return w * x * x;  // forward is not recorded: any operations may be used
///       }
///       void backward(const Tensor& dy, Gradient dw, Gradient dx) const {  // one for each input
///         if (dw) dw.add(sum_to_shape(dy * x * x, w.shape()));
///         if (dx) dx.add(sum_to_shape(2.0 * dy * w * x, x.shape()));
///       }
///     };
///
///     Tensor weighted_square(const Tensor& w, const Tensor& x) {
///       return apply(WeightedSquare{}, w, x);
///     }
///
/// `gradcheck` (gradcheck/gradcheck.h) checks the gradients. Operations with custom loops write to
/// `dx.target<T>()`, as in the example custom_operation.cpp. `autograd/README.md` explains tapes
/// and gradients; both are installed in the documentation folder of libtapestry-dev.
///
/// dy is read only: its memory may be shared with other operations and with the caller. An input
/// may be absent (`Tensor()`): its Gradient is then not needed. An operation with a second
/// result defines its type, `using Result = ...`, and a member `Result result`, which forward sets
/// and apply() returns with the output. The results of forward must depend only on its arguments
/// and on members. `formula` and `derivative` may also be member functions that return strings with
/// the values of members. `derivative` uses the symbols of `formula`, and defines all other
/// symbols.
///
/// apply() reads the execution context; operations do not. An operation may have
///
///     forward(const ForwardContext& context, inputs...)
///         instead of forward(inputs...), if it depends on the context
///     freeze(FrozenBranches& branches, Tensor& y, inputs...)
///         if it is piecewise: gives the elements of y = forward(inputs...) their frozen branches
///     unfused(inputs...)
///         if it is fused: computes the same result with other operations, which run instead for a
///         TapeObserver that splits fused operations
namespace tapestry {

/// State that forward may depend on, in addition to its inputs.
struct ForwardContext {
  const ExecutionContext& thread;  ///< context of the thread, with the tape paused
  bool recorded;                   ///< true if backward may follow
};

namespace detail {

/// Whether an operation has a name.
template <class Op>
concept NamedOperation = requires {
  std::string_view(Op::name);
};

/// Whether the backward of an operation takes this number of inputs.
template <class Op, std::size_t... I>
constexpr bool has_backward(std::index_sequence<I...>) {
  return requires(const Op& op, const Tensor& dy) {
    op.backward(dy, ((void)I, std::declval<Gradient>())...);
  };
}

template <class Op, std::size_t N>
class OperationRecord final : public Record {
 public:
  OperationRecord(Op op, std::shared_ptr<GradientSlot> output,
                  std::array<std::shared_ptr<GradientSlot>, N> inputs)
      : Record(Op::name, std::move(output)), op_(std::move(op)), inputs_(std::move(inputs)) {}

  void backward(const Tensor& dy) const override {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      op_.backward(dy, Gradient(inputs_[I].get(), Op::name, I)...);
    }
    (std::make_index_sequence<N>{});
  }
  Slots inputs() const override { return inputs_; }

 private:
  Op op_;
  std::array<std::shared_ptr<GradientSlot>, N> inputs_;
};

template <class Op>
class ListOperationRecord final : public Record {
 public:
  ListOperationRecord(Op op, std::shared_ptr<GradientSlot> output, std::span<const Tensor> inputs)
      : Record(Op::name, std::move(output)), op_(std::move(op)) {
    for (const Tensor& input : inputs) inputs_.push_back(input.slot());
  }

  void backward(const Tensor& dy) const override {
    std::vector<Gradient, kernels::PoolAllocator<Gradient>> gradients;
    for (const auto& slot : inputs_) gradients.emplace_back(slot.get(), Op::name, gradients.size());
    op_.backward(dy, std::span<const Gradient>(gradients));
  }
  Slots inputs() const override { return inputs_; }

 private:
  Op op_;
  std::vector<std::shared_ptr<GradientSlot>, kernels::PoolAllocator<std::shared_ptr<GradientSlot>>>
      inputs_;
};

double count_bytes(const Tensor& x);
double count_bytes(std::span<const Tensor> list);

/// Throws the EmptyTensorError of an operation whose forward has used an empty Tensor, with the
/// number of the first empty input.
[[noreturn]] void throw_empty_input(const char* operation, std::span<const Tensor> inputs);
template <std::same_as<Tensor>... Inputs>
[[noreturn]] void throw_empty_input(const char* operation, const Inputs&... inputs) {
  throw_empty_input(operation, std::span<const Tensor>(std::array{inputs...}));
}

/// Replaces elements of y with their frozen branches, if a pass is active and Op has `freeze`.
template <class Op, class Y, class... Inputs>
void freeze(const ExecutionContext& thread, Op& op, Y& y, const Inputs&... inputs) {
  if constexpr (requires { op.freeze(*thread.frozen_branches, y, inputs...); }) {
    if (thread.frozen_branches != nullptr) [[unlikely]]
      op.freeze(*thread.frozen_branches, y, inputs...);
  }
}

template <class Op, class... Inputs>
Tensor call_forward(const ForwardContext& context, Op& op, const Inputs&... inputs) {
  if constexpr (requires { op.forward(context, inputs...); }) {
    return op.forward(context, inputs...);
  } else {
    return op.forward(inputs...);
  }
}

/// Runs the forward of an operation without recording the operations that it calls; a Profiler
/// measures its time.
template <class Op, class... Inputs>
Tensor run_forward(bool recorded, Op& op, const Inputs&... inputs) {
  ProfileScope scope(Op::name);
  const NoGrad no_grad;
  const ExecutionContext& thread = execution_context();
  try {
    Tensor y = call_forward({thread, recorded}, op, inputs...);
    freeze(thread, op, y, inputs...);
    if (scope) scope.add_bytes(count_bytes(y) + (count_bytes(inputs) + ...));
    return y;
  } catch (const EmptyTensorError&) {
    throw_empty_input(Op::name, inputs...);
  }
}

/// Attaches a new gradient slot to y. Throws ValueError, naming the operation, if y already has a
/// slot.
std::shared_ptr<GradientSlot> new_slot(Tensor& y, const char* operation);

using Recompute = std::function<Tensor(std::span<const Tensor>)>;

/// Description of an operation for observers, without its inputs and output; see RecordedCall.
struct Description {
  const char* name = nullptr;
  std::string formula{}, derivative{};
  Recompute recompute{};
};

/// Reports a recorded operation to the observer of a tape.
void notify_observer(Tape& tape, Description operation, std::span<const Tensor> inputs,
                     const Tensor& y);

}  // namespace detail

/// The output and the result of an operation that has a `Result`.
template <class Result>
struct OutputWithResult {
  Tensor y;       ///< the output, on which gradients are recorded
  Result result;  ///< Op::result after forward; has no gradient
};

template <class Op, class... Inputs>
auto apply(Op op, const Inputs&... inputs);
template <class Op>
Tensor apply_to_list(Op op, std::span<const Tensor> inputs);

namespace detail {

/// The return value of apply() for an output y of op.
template <class Op>
auto with_result(Tensor y, const Op& op) {
  if constexpr (requires { typename Op::Result; }) {
    return OutputWithResult<typename Op::Result>{std::move(y), op.result};
  } else {
    return y;
  }
}

inline Tensor output(Tensor y) { return y; }
template <class Result>
Tensor output(OutputWithResult<Result> output) {
  return std::move(output.y);
}

/// Returns a function that applies a copy of `op` to N other inputs. `op` must not have run yet.
template <std::size_t N, class Op>
Recompute make_recompute(const Op& op) {
  if constexpr (std::is_copy_constructible_v<Op>) {
    return [op](std::span<const Tensor> inputs) {
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return output(apply(op, inputs[I]...));
      }
      (std::make_index_sequence<N>{});
    };
  } else {
    return {};
  }
}

template <class Op>
Recompute make_list_recompute(const Op& op) {
  if constexpr (std::is_copy_constructible_v<Op>) {
    return [op](std::span<const Tensor> inputs) { return apply_to_list(op, inputs); };
  } else {
    return {};
  }
}

/// The description of an operation that has not run yet.
template <class Op>
Description describe(const Op& op, Recompute recompute) {
  Description description{.name = Op::name, .recompute = std::move(recompute)};
  if constexpr (requires { std::string(op.formula()); }) {
    description.formula = op.formula();
  } else if constexpr (requires { std::string(Op::formula); }) {
    description.formula = Op::formula;
  }
  if constexpr (requires { std::string(op.derivative()); }) {
    description.derivative = op.derivative();
  } else if constexpr (requires { std::string(Op::derivative); }) {
    description.derivative = Op::derivative;
  }
  return description;
}

}  // namespace detail

/// Runs op on its inputs and records it if there is an active tape and an input requires a
/// gradient. The tape is paused during forward. Returns the output, or an OutputWithResult if op
/// has a `Result`.
template <class Op, class... Inputs>
auto apply(Op op, const Inputs&... inputs) {
  static_assert(detail::NamedOperation<Op>,
                "an operation needs a name: static constexpr const char* name = \"my_operation\";");
  static_assert(detail::has_backward<Op>(std::make_index_sequence<sizeof...(Inputs)>()),
                "backward takes dL/dy and a Gradient for each input of forward, and is const: "
                "void backward(const Tensor& dy, Gradient dx) const");
  if (!is_recorded(inputs...)) {
    Tensor y = detail::run_forward(false, op, inputs...);
    return detail::with_result(std::move(y), op);
  }
  Tape& tape = *execution_context().tape;
  detail::Description description;
  if (tape.observer() != nullptr) {
    if constexpr (requires { op.unfused(inputs...); }) {
      if (tape.observer()->splits_fused()) return op.unfused(inputs...);
    }
    description = detail::describe(op, detail::make_recompute<sizeof...(Inputs)>(op));
  }
  Tensor y = detail::run_forward(true, op, inputs...);
  std::shared_ptr<GradientSlot> slot = detail::new_slot(y, Op::name);
  auto output = detail::with_result(y, op);
  tape.record(std::make_unique<detail::OperationRecord<Op, sizeof...(Inputs)>>(
      std::move(op), std::move(slot), std::array{inputs.slot()...}));
  if (tape.observer() != nullptr) {
    detail::notify_observer(tape, std::move(description), std::array{inputs...}, y);
  }
  return output;
}

/// Applies an operation on any number of inputs: forward takes std::span<const Tensor>,
/// backward std::span<const Gradient>.
template <class Op>
Tensor apply_to_list(Op op, std::span<const Tensor> inputs) {
  static_assert(detail::NamedOperation<Op>,
                "an operation needs a name: static constexpr const char* name = \"my_operation\";");
  const bool wanted = std::ranges::any_of(inputs, &Tensor::requires_grad);
  if (!wanted || execution_context().tape == nullptr) {
    return detail::run_forward(false, op, inputs);
  }
  Tape& tape = *execution_context().tape;
  detail::Description description;
  if (tape.observer() != nullptr) {
    description = detail::describe(op, detail::make_list_recompute(op));
  }
  Tensor y = detail::run_forward(true, op, inputs);
  tape.record(std::make_unique<detail::ListOperationRecord<Op>>(
      std::move(op), detail::new_slot(y, Op::name), inputs));
  if (tape.observer() != nullptr) {
    detail::notify_observer(tape, std::move(description), inputs, y);
  }
  return y;
}

/// Runs an operation whose result is never differentiated, such as argmax. The operation has only
/// forward and freeze; the result may have any type.
template <class Op, class... Inputs>
auto apply_without_gradient(Op op, const Inputs&... inputs) {
  auto y = op.forward(inputs...);
  detail::freeze(execution_context(), op, y, inputs...);
  return y;
}

}  // namespace tapestry
