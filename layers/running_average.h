#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/tensor.h"

namespace tapestry {

/// Values of a model that no gradient moves: an average of what training sees, such as the mean of
/// a feature in a batch norm. `Parameters` makes and lists them, beside the trained ones.
///
/// A layer notes what it saw; `commit` puts everything noted into the average in the order in which
/// it came, and `discard` forgets it. A training loop that may drop a step commits once the weights
/// have moved (Mode::with_deferred_averages).
///
/// A RunningAverage is a cheap handle: copies share values and notes.
class RunningAverage {
 public:
  /// Averages into `value`, from what it holds now.
  explicit RunningAverage(const Tensor& value);

  const Tensor& value() const { return state_->value; }

  /// Notes `seen`, of the value's shape and element type: at the next commit value becomes
  /// keep * value + take * seen.
  void note(const Tensor& seen, double keep, double take) const;
  void commit() const;
  void discard() const;
  /// How much is noted.
  std::size_t pending() const { return state_->notes.size(); }

 private:
  struct Note {
    Tensor seen;
    double keep, take;
  };
  struct State {
    Tensor value;
    std::vector<Note, kernels::PoolAllocator<Note>> notes;
  };

  std::shared_ptr<State> state_;
};

}  // namespace tapestry
