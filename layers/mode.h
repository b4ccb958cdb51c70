#pragma once

#include <cstddef>
#include <string>

#include "autograd/random.h"

namespace tapestry {

/// Whether a forward pass is for training or for inference. It is an argument of every call, so
/// layers have no train/eval state.
///
///     model(input, Mode::training(RandomStream(seed).named("dropout").at(step)))
///     model(input, Mode::inference())
class Mode {
 public:
  /// No dropout; batch norm uses its running mean and variance.
  static Mode inference() { return {}; }

  /// Dropout keyed by `random`; batch norm uses mean and variance of the batch and, if a tape
  /// records the pass, updates the running ones with them. Without a stream, a layer whose dropout
  /// rate is not 0 throws ValueError.
  static Mode training(const RandomStream& random = {}) {
    Mode mode;
    mode.training_ = true;
    mode.random_ = random;
    return mode;
  }

  /// The same mode, but running averages are updated only by Parameters::commit_buffers(): for a
  /// training loop that may skip a step.
  Mode with_deferred_averages() const {
    Mode mode = *this;
    mode.defers_averages_ = true;
    return mode;
  }

  /// Whether the pass is for training.
  bool is_training() const { return training_; }
  /// Whether running averages are only updated by Parameters::commit_buffers().
  bool defers_averages() const { return defers_averages_; }
  /// The same mode with other random numbers, for one of several calls of a layer in a forward
  /// pass. Without it they would drop the same elements, since those depend only on the stream and
  /// on the path of the layer:
  ///
  ///     const Tensor a = encoder(x, mask, mode.at(0));
  ///     const Tensor b = encoder(x, mask, mode.at(1));   // another dropout mask
  Mode at(std::size_t call) const {
    Mode mode = *this;
    mode.random_ = random_.at(call);
    return mode;
  }

  /// The stream of dropout; off in inference.
  const RandomStream& random() const { return random_; }
  /// The stream for dropout of this rate in the layer at `path`; off in inference. Throws
  /// ValueError in training without a random stream, unless the rate is 0.
  RandomStream dropout_stream(const std::string& path, double rate) const;

 private:
  Mode() = default;  // inference

  bool training_ = false;
  bool defers_averages_ = false;
  RandomStream random_{};
};

}  // namespace tapestry
