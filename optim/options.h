#pragma once

#include <cstddef>

namespace tapestry {

/// The kind of an optimizer.
enum class OptimizerKind {
  sgd,   ///< Sgd
  adam,  ///< Adam
  adamw  ///< AdamW
};

/// Options of an optimizer. The member initializers are the defaults.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;  ///< what make_optimizer() makes
  double momentum = 0.0;                     ///< sgd: in [0, 1)
  double beta1 = 0.9;                        ///< adam, adamw: decay of the first moment, in [0, 1)
  double beta2 = 0.98;                       ///< adam, adamw: decay of the second moment, in [0, 1)
  double epsilon = 1e-9;                     ///< adam, adamw: added to sqrt(v), > 0
  double weight_decay = 0.0;                 ///< >= 0; adamw: decoupled, not for biases and norms
};

/// Throws ValueError, with field, value and limit, for the first field outside its range.
void validate(const OptimizerOptions& options);

/// The kind of a learning rate schedule; Schedule has the formulas.
enum class ScheduleKind {
  constant,       ///< the peak in every step
  linear_warmup,  ///< linear growth, then the peak
  inverse_sqrt,   ///< linear growth, then decay with the square root of the step
  cosine          ///< linear growth, then a half cosine to the minimum
};

/// Options of the learning rate schedule. The member initializers are the defaults.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;  ///< what make_schedule() makes
  double learning_rate = 1e-3;                 ///< peak learning rate, > 0
  std::size_t warmup_steps = 0;    ///< steps of linear growth from 0 to the peak; constant: 0
  std::size_t decay_steps = 0;     ///< cosine: step of the minimum, > warmup_steps
  double min_learning_rate = 0.0;  ///< cosine: minimum, in [0, learning_rate]
};

/// Throws ValueError, with field, value and limit, for the first field that is outside its range or
/// contradicts another field.
void validate(const ScheduleOptions& options);

}  // namespace tapestry
