#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/gradient.h"
#include "autograd/tensor.h"

namespace tapestry {

/// One recorded operation: turns dL/dy of its output into contributions to its inputs.
class Record {
 public:
  Record(const char* operation, std::shared_ptr<GradientSlot> output);
  virtual ~Record() {
    if (output_ != nullptr) output_->mark_spent();
  }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  const char* operation() const { return operation_; }
  const std::string& layer_path() const { return *layer_path_; }
  const std::shared_ptr<GradientSlot>& output() const { return output_; }
  virtual void backward(const Tensor& dy) const = 0;

  using Slots = std::span<const std::shared_ptr<GradientSlot>>;
  /// The gradient slots of its inputs; null for an input that needs no gradient.
  virtual Slots inputs() const = 0;

  static void* operator new(std::size_t bytes) { return kernels::detail::pool_allocate(bytes); }
  static void operator delete(void* record) { kernels::detail::pool_release(record); }

 private:
  const char* operation_;
  const std::string* layer_path_;
  std::shared_ptr<GradientSlot> output_;
};

/// One operation as a tape has recorded it.
struct RecordedCall {
  const char* operation;
  const std::string* layer_path;   ///< lives as long as the program
  std::span<const Tensor> inputs;  ///< an absent input is no tensor
  const Tensor& output;
  /// Applies an operation with the same attributes to other inputs of the same shapes; may be
  /// called any number of times. Empty if the operation cannot be copied.
  std::function<Tensor(std::span<const Tensor>)> again;
};

/// Observes the operations of a tape that was constructed with it. Its own operations are not
/// recorded; an exception that it throws ends the forward or backward pass.
class TapeObserver {
 public:
  virtual ~TapeObserver() = default;
  virtual void forward_ran(const RecordedCall& call) = 0;
  /// The record whose output has this slot has passed `dy`, the gradient of its output, on to its
  /// inputs.
  virtual void backward_ran(const GradientSlot& output, const Tensor& dy) = 0;
};

/// Records the operations of its thread while it is alive, in the order of execution. Without a
/// tape nothing is recorded, so inference is the same forward code.
///
///     Tape tape;
///     const Tensor loss = mean(square(model(x) - y));
///     tape.backward(loss);               // parameters now have gradients
///
/// One call of `backward` consumes a tape: each record releases what it has saved as soon as it has
/// run. Tapes nest; the innermost records. Every thread has its own tapes.
class Tape {
 public:
  Tape() : Tape(nullptr) {}
  /// `observer`, if not null, is notified of every operation; it must outlive the tape.
  explicit Tape(TapeObserver* observer);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Adds d(loss)/d(leaf) to the gradient of every leaf that `loss` depends on. `loss` has one
  /// element and was computed under this tape from something that requires a gradient, or is a leaf
  /// itself; otherwise ShapeError or ValueError.
  void backward(const Tensor& loss);
  /// The same for an output of any shape, given dL/dy.
  void backward(const Tensor& y, const Tensor& dy);

  /// Number of operations recorded and not yet consumed.
  std::size_t size() const { return records_.size(); }
  void record(std::unique_ptr<Record> record) { records_.push_back(std::move(record)); }
  TapeObserver* observer() const { return observer_; }

  /// The tape that records on this thread, or null.
  static Tape* active();

 private:
  bool has_recorded(const GradientSlot& output) const;

  std::vector<std::unique_ptr<Record>, kernels::PoolAllocator<std::unique_ptr<Record>>> records_;
  Tape* outer_;
  TapeObserver* observer_;
};

/// While one is alive, nothing is recorded on its thread.
class TapePause {
 public:
  TapePause();
  ~TapePause();
  TapePause(const TapePause&) = delete;
  TapePause& operator=(const TapePause&) = delete;

 private:
  Tape* paused_;
};

/// True if an operation on these inputs will be recorded: only then it has to save what its
/// backward needs.
template <class... Inputs>
bool is_recorded(const Inputs&... inputs) {
  return Tape::active() != nullptr && (inputs.requires_gradient() || ...);
}

}  // namespace tapestry
