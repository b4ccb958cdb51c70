#pragma once

#include <memory>
#include <span>
#include <vector>

#include "autograd/gradient.h"
#include "autograd/tape_observer.h"
#include "autograd/tensor.h"

namespace tapestry {

/// One operation that ran: how to turn dL/dy of its output into contributions to its inputs.
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
  /// Where the gradients of its inputs come together; null for one that wants none.
  virtual Slots inputs() const = 0;

  static void* operator new(std::size_t bytes) { return kernels::detail::pool_allocate(bytes); }
  static void operator delete(void* record) { kernels::detail::pool_release(record); }

 private:
  const char* operation_;
  const std::string* layer_path_;
  std::shared_ptr<GradientSlot> output_;
};

/// Records what runs on its thread while it is alive, in the order in which it runs; without a tape
/// nothing is recorded, so inference is the same forward code.
///
///     Tape tape;
///     const Tensor loss = mean(square(model(x) - y));
///     tape.backward(loss);               // parameters now have gradients
///
/// A tape is used up by one call of `backward`: each record gives back what it had saved as soon as
/// it has run. Tapes nest; the innermost records. Every thread has tapes of its own.
class Tape {
 public:
  Tape() : Tape(nullptr) {}
  /// Every operation is shown to `observer`, which outlives the tape. Null: to nobody.
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

  /// Number of operations recorded and not yet used up.
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

/// True if an operation on these inputs is going to be recorded: only then does it have to keep
/// what its backward needs.
template <class... Inputs>
bool is_recorded(const Inputs&... inputs) {
  return Tape::active() != nullptr && (inputs.requires_gradient() || ...);
}

}  // namespace tapestry
