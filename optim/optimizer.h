#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/named_tensor.h"
#include "optim/gradient_pieces.h"

namespace tapestry {

/// Moves parameters against their gradients.
///
///     tape.backward(loss);
///     optimizer.step(schedule.learning_rate(optimizer.steps() + 1));
///     parameters.clear_gradients();
///
/// Steps give the same bits on any number of threads. Gradients of several batches add up by
/// themselves between two calls of `clear_gradients`; `gradient_scale` turns the sum into a mean.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient; the others, which the loss did not depend on, and
  /// their state stay as they are. Every gradient is taken times `gradient_scale`, so that clipping
  /// and averaging need no pass of their own.
  ///
  /// throws  ValueError, before anything changes, if the learning rate is not a finite number >= 0
  ///         or the scale is not finite.
  void step(double learning_rate, double gradient_scale = 1.0);

  /// Number of steps done. A resumed run sets it, and copies what `state` names.
  std::uint64_t steps() const { return steps_; }
  void set_steps(std::uint64_t steps) { steps_ = steps; }

  /// Handles of all that is remembered from step to step, named `<what>/<parameter name>`, in an
  /// order that does not change; each has the shape and element type of its parameter.
  virtual std::vector<NamedTensor> state() const = 0;

 protected:
  /// throws  ValueError unless the parameters are one or more different leaves that require a
  ///         gradient and have different names.
  explicit Optimizer(std::span<const NamedTensor> parameters);

  const std::vector<NamedTensor>& parameters() const { return parameters_; }

 private:
  /// One update of the parameters that have gradients; steps() counts it already.
  virtual void update(const GradientPieces& gradients, double learning_rate,
                      double gradient_scale) = 0;

  std::vector<NamedTensor> parameters_;
  std::uint64_t steps_ = 0;
};

}  // namespace tapestry
