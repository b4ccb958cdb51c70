#pragma once

#include <cstddef>

namespace tapestry {

enum class OptimizerKind { sgd, adam, adamw };

/// The optimizer algorithm. The member initialisers are the defaults.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;
  double momentum = 0.0;      ///< sgd: in [0, 1)
  double beta1 = 0.9;         ///< adam, adamw: decay of the first moment, in [0, 1)
  double beta2 = 0.98;        ///< adam, adamw: decay of the second moment, in [0, 1)
  double epsilon = 1e-9;      ///< adam, adamw: added to sqrt(v), > 0
  double weight_decay = 0.0;  ///< >= 0; adamw decouples it and skips biases and norms
};

/// Throws ValueError, with field, value and limit, at the first field outside its range.
void validate(const OptimizerOptions& options);

enum class ScheduleKind { constant, linear_warmup, inverse_sqrt, cosine };

/// How the learning rate moves with the step. The member initialisers are the defaults.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;
  double learning_rate = 1e-3;     ///< the peak, > 0
  std::size_t warmup_steps = 0;    ///< steps of linear growth from 0 to the peak; constant: 0
  std::size_t decay_steps = 0;     ///< cosine: step at which the floor is reached, > warmup_steps
  double min_learning_rate = 0.0;  ///< cosine: the floor, in [0, learning_rate]
};

/// Throws ValueError, with field, value and limit, at the first field that is outside its range or
/// contradicts another.
void validate(const ScheduleOptions& options);

}  // namespace tapestry
