// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/execution_context.h"
#include "autograd/gradient.h"
#include "autograd/tensor.h"

namespace tapestry {
namespace detail {

/// One recorded operation: computes the gradient contributions of its inputs from dL/dy.
class Record {
 public:
  /// `operation` is the name of the operation, a literal; `output` the slot of its output.
  Record(const char* operation, std::shared_ptr<GradientSlot> output);
  /// Marks the record of the output as used: later contributions to its gradient throw.
  virtual ~Record() {
    if (output_ != nullptr) output_->mark_used();
  }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  /// The name of the operation.
  const char* operation() const { return operation_; }
  /// The path of the layer that ran the operation; empty outside of layers.
  const std::string& layer_path() const { return *layer_path_; }
  /// The gradient slot of the output.
  const std::shared_ptr<GradientSlot>& output() const { return output_; }
  /// Adds the contributions of the operation to the gradients of its inputs, given dL/dy.
  virtual void backward(const Tensor& dy) const = 0;

  /// Gradient slots in the order of the inputs.
  using Slots = std::span<const std::shared_ptr<GradientSlot>>;
  /// The gradient slots of the inputs; null for an input that needs no gradient.
  virtual Slots inputs() const = 0;

  /// Records the versions of the inputs' values that forward used.
  void record_input_versions() { input_versions_ = sum_of_input_versions(); }
  /// Throws ValueError if the values of an input that requires a gradient may have changed since
  /// record_input_versions().
  void require_unchanged_inputs() const;

  /// Allocates from the pool of tensors.
  static void* operator new(std::size_t bytes) { return kernels::detail::pool_allocate(bytes); }
  /// Returns the record to the pool.
  static void operator delete(void* record) { kernels::detail::pool_release(record); }

 private:
  std::uint64_t sum_of_input_versions() const;

  const char* operation_;
  const std::string* layer_path_;
  std::shared_ptr<GradientSlot> output_;
  std::uint64_t input_versions_ = 0;  // sum over the inputs when the operation ran
};

}  // namespace detail

/// Description of a recorded operation, for observers.
struct RecordedCall {
  const char* operation;          ///< name, such as "softmax"; valid until the program ends
  std::string formula;            ///< formula of the output, such as "y = x Wᵀ + b"; may be empty
  std::string derivative;         ///< formula of the inputs' gradients; may be empty
  const std::string* layer_path;  ///< valid until the program ends; "" outside of layers
  std::span<const Tensor> inputs;  ///< an absent input is an empty Tensor
  const Tensor& output;            ///< the output of the operation
  /// Applies an operation with the same attributes to other inputs of the same shapes; may be
  /// called several times. Empty if the operation cannot be copied.
  std::function<Tensor(std::span<const Tensor>)> recompute;
};

/// Observes the operations of a tape that was constructed with it. Operations that the observer
/// runs are not recorded; an exception that the observer throws ends the forward or backward pass.
class TapeObserver {
 public:
  virtual ~TapeObserver() = default;
  /// Called when an operation has run and been recorded.
  virtual void forward_ran(const RecordedCall& call) = 0;
  /// Called when the record with this output slot has propagated `dy`, the gradient of its output,
  /// to its inputs.
  virtual void backward_ran(const GradientSlot& output, const Tensor& dy) = 0;
  /// Whether linear_cross_entropy() runs as linear() and cross_entropy(), so that the observer sees
  /// the logits and their gradient.
  virtual bool splits_fused() const { return false; }
};

/// Records the operations of its thread during its lifetime, in order of execution. Without a tape
/// nothing is recorded, so inference uses the same forward code.
///
///     Tape tape;
///     const Tensor loss = mean(square(model(x) - y));
///     tape.backward(loss);               // parameters now have gradients
///
/// One call of `backward` consumes a tape: each record releases its saved values as soon as it has
/// run. Tapes nest; the innermost one records. Each thread has its own tapes.
class Tape {
 public:
  /// Becomes the active tape of this thread. `observer`, if not null, is notified of every
  /// operation; it must outlive the tape.
  explicit Tape(TapeObserver* observer = nullptr) : observer_(observer) {}
  /// Destroys all records; the enclosing tape becomes active again.
  ~Tape();

  /// Adds d(loss)/d(leaf) to the gradient of every leaf that `loss` depends on. `loss` must have
  /// one element and must have been computed under this tape from a tensor that requires a
  /// gradient, or be a leaf itself; otherwise throws ShapeError or ValueError. Also throws
  /// ValueError if the values of an input changed after an operation used them
  /// (Tensor::mutable_values). Errors in the backward pass of an operation name the operation.
  void backward(const Tensor& loss);
  /// Like backward(loss), for an output of any shape, given dL/dy.
  void backward(const Tensor& y, const Tensor& dy);

  /// Makes backward throw ValueError, naming the operation, if the backward of an operation changes
  /// a value of its dL/dy, even without mutable_values(), which always throws. Hashes each dL/dy
  /// before and after the operation. Builds without NDEBUG always do this.
  void detect_writes_to_dy() { detects_writes_ = true; }

  /// Makes backward call `call` with the gradient slot of each leaf that recorded operations use,
  /// as soon as its gradient is complete, while gradients of earlier layers are still computed. The
  /// gradient of a tied weight is complete after backward of its first use. A leaf without a
  /// gradient at that time does not receive one later. `call` is not called for leaves that no
  /// recorded operation uses. An exception that it throws ends backward.
  void on_gradient_complete(std::function<void(const GradientSlot& leaf)> call) {
    on_gradient_complete_ = std::move(call);
  }

  /// Number of operations that are recorded and not yet consumed.
  std::size_t size() const { return records_.size(); }
  /// For `apply`: appends a record.
  void record(std::unique_ptr<detail::Record> record);
  /// The observer of this tape, or null.
  TapeObserver* observer() const { return observer_; }

 private:
  bool has_recorded(const GradientSlot& output) const;
  void propagate(const detail::Record& record);

  using Pointer = std::unique_ptr<detail::Record>;
  std::vector<Pointer, kernels::PoolAllocator<Pointer>> records_;
  TapeObserver* observer_;
  std::function<void(const GradientSlot&)> on_gradient_complete_;
#ifdef NDEBUG
  bool detects_writes_ = false;
#else
  bool detects_writes_ = true;
#endif
  ContextGuard<&ExecutionContext::tape> active_{this};
};

/// Disables gradients on its thread during its lifetime: operations are not recorded and their
/// outputs do not require gradients, as without a tape. For inference inside a training loop:
///
///     Tape tape;
///     const Tensor loss = model.loss(batch, Mode::training(random));
///     {
///       const NoGrad no_grad;
///       report(model.loss(held_out, Mode::inference()));
///     }
///     tape.backward(loss);   // differentiates only the first loss
///
/// Guards nest. A tape constructed inside a guard records.
class NoGrad {
  ContextGuard<&ExecutionContext::tape> paused_{nullptr};
};

/// True if an operation on these inputs will be recorded.
template <class... Inputs>
bool is_recorded(const Inputs&... inputs) {
  return execution_context().tape != nullptr && (inputs.requires_grad() || ...);
}

}  // namespace tapestry
