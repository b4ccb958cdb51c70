#pragma once

#include "autograd/random.h"

namespace tapestry {

/// Whether a forward pass is of training or of inference; every layer is told.
///
///     model(input, Mode::training(RandomStream(seed).named("dropout").at(step)))
///     model(input, Mode::inference())
class Mode {
 public:
  /// The same as inference().
  Mode() = default;

  /// No dropout; batch norm takes its running averages.
  static Mode inference() { return {}; }

  /// Dropout keyed by `random`, none if it is off; batch norm takes the moments of the batch and,
  /// if a tape records the pass, moves its running averages towards them.
  static Mode training(const RandomStream& random = {}) {
    Mode mode;
    mode.training_ = true;
    mode.random_ = random;
    return mode;
  }

  /// The same, but running averages move at Parameters::commit_buffers() only: for a training loop
  /// that may drop a step.
  Mode with_deferred_averages() const {
    Mode mode = *this;
    mode.defers_averages_ = true;
    return mode;
  }

  bool is_training() const { return training_; }
  bool defers_averages() const { return defers_averages_; }
  const RandomStream& random() const { return random_; }

 private:
  bool training_ = false;
  bool defers_averages_ = false;
  RandomStream random_{};
};

}  // namespace tapestry
