#pragma once

#include <cstdint>
#include <memory>

#include "optim/optimizer.h"
#include "tests/bench/model.h"
#include "tests/bench/problems.h"

namespace tapestry::bench {

/// A problem's model, its batch and its optimizer: what it takes to train on that batch again and
/// again.
class TrainingStep {
 public:
  explicit TrainingStep(const Problem& problem);

  /// One whole step: forward with dropout 0.1, cross entropy with label smoothing 0.1, backward,
  /// clipping to a norm of 1, Adam.
  void run();

  /// The loss of the batch by the parameters as they are, without dropout.
  double evaluate() const;

  const Batch& batch() const { return batch_; }
  const Parameters& parameters() const { return model_.parameters(); }

 private:
  double gradient_norm() const;
  void update_parameters(double gradient_norm);

  Model model_;
  Batch batch_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace tapestry::bench
