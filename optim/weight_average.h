// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/named_tensor.h"
#include "optim/optimizer.h"

namespace tapestry {

/// Exponential moving average of the values of parameters [1], which often scores better than the
/// values of any single step. For update t = 1, 2, ...:
///
///     average <- average + (1 - d_t) (value - average),   d_t = min(decay, (1 + t) / (10 + t))
///
/// The average of a constant value is bit-identical to the value. The smaller d_t of the first
/// updates lets the average forget the initial values.
///
///     WeightAverage average(parameters.list(), 0.999);
///     while (...) {
///       ...
///       optimizer.step(learning_rate);
///       average.update(optimizer.steps());
///     }
///     average.swap();   // evaluate with the averages
///     ...
///     average.swap();   // continue to train
///
/// The result of an update is bit-identical on any number of threads.
///
/// [1] Polyak & Juditsky 1992, "Acceleration of stochastic approximation by averaging"; the decay
///     warms up as in tf.train.ExponentialMovingAverage.
class WeightAverage {
 public:
  /// The averages of these parameters, which start as copies of their values.
  ///
  /// ranges  elements to average, one range for each parameter; if empty, all elements. Other
  ///         elements are neither read nor changed.
  /// throws  ValueError unless 0 < decay < 1 and there is at least one parameter; also the errors
  ///         of make_optimizer() for ranges.
  WeightAverage(std::span<const NamedTensor> parameters, double decay,
                std::span<const ElementRange> ranges = {});

  /// Sets the averages to the current values.
  void reset();

  /// Updates the averages. Call it after update number t of the parameters, counted from 1.
  ///
  /// throws  ValueError if t is 0.
  void update(std::uint64_t t);

  /// Exchanges the values of the parameters with their averages.
  void swap();

  /// The averages, with the names, order and shapes of the parameters, or shape (n) for a range of
  /// n elements. After an odd number of swap() calls, they hold the values of the parameters.
  const std::vector<NamedTensor>& state() const { return averages_; }
  /// The elements of each parameter that have averages.
  const std::vector<ElementRange>& ranges() const { return ranges_; }

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<ElementRange> ranges_;
  std::vector<NamedTensor> averages_;
  double decay_;
};

}  // namespace tapestry
