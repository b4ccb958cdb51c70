// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/tensor.h"

namespace tapestry {

/// A running average of statistics from forward passes in training, such as the mean of a feature
/// in a batch norm. It is a buffer of the model and has no gradient. `Parameters` creates and lists
/// buffers.
///
/// A layer adds updates with `update`; `commit` applies the pending updates in order, and `discard`
/// drops them. A training loop that may skip a step commits after the optimizer step
/// (Mode::with_deferred_averages).
///
/// A RunningAverage is a cheap handle: copies share value and pending updates.
class RunningAverage {
 public:
  /// The average is stored in `value`; its current content is the initial value.
  explicit RunningAverage(const Tensor& value);

  /// The average, without pending updates.
  const Tensor& value() const { return state_->value; }

  /// Adds a pending update: the next commit sets the value to
  /// (1 - momentum) * value + momentum * batch_value.
  ///
  /// throws  ShapeError or DTypeError unless `batch_value` has the shape and element type of the
  ///         value.
  void update(const Tensor& batch_value, double momentum) const;
  /// Adds a pending update: the next commit sets the value to
  /// decay * value + weight * batch_value. Throws like the other overload.
  void update(const Tensor& batch_value, double decay, double weight) const;
  /// Applies all pending updates, in order.
  void commit() const;
  /// Drops all pending updates.
  void discard() const;

  /// A pending update: value = decay * value + weight * batch_value.
  struct Update {
    Tensor batch_value;  ///< has the shape of the value
    double decay;        ///< factor of the value
    double weight;       ///< factor of batch_value
  };
  /// The pending updates, in order.
  std::span<const Update> pending_updates() const { return state_->updates; }

 private:
  struct State {
    Tensor value;
    std::vector<Update, kernels::PoolAllocator<Update>> updates;
  };

  std::shared_ptr<State> state_;
};

}  // namespace tapestry
