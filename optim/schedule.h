// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tapestry {

/// The kind of a learning rate schedule; see Schedule for the formulas.
enum class ScheduleKind {
  constant,       ///< the peak rate in every step
  linear_warmup,  ///< linear growth, then the peak rate
  inverse_sqrt,   ///< linear growth, then decay with the square root of the step
  cosine          ///< linear growth, then a half cosine to the minimum
};

/// Options of the learning rate schedule. The member initializers are the defaults.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;  ///< schedule that make_schedule() returns
  double learning_rate = 1e-3;                 ///< peak learning rate, > 0
  std::size_t warmup_steps = 0;    ///< steps of linear growth from 0 to the peak; constant: 0
  std::size_t decay_steps = 0;     ///< cosine: step of the minimum, > warmup_steps
  double min_learning_rate = 0.0;  ///< cosine: minimum, in [0, learning_rate]
};

/// Throws ValueError for the first field that is outside its range or contradicts another field.
/// The error names the field, its value and the limit.
void validate(const ScheduleOptions& options);

/// The learning rate as a function of the step. With peak r, w warm-up steps and step t = 1, 2, ...
///
///     constant        r
///     linear_warmup   r min(t / w, 1)
///     inverse_sqrt    r min(t / w, sqrt(w / t))     w >= 1 [1]
///     cosine          r t / w until t = w, then decay to the minimum f at t = d [2]:
///                     f + (r - f) (1 + cos(pi (t - w) / (d - w))) / 2, and f after d
///
/// w = 0 is equivalent to w = 1, except that cosine then decays from t = 0.
///
/// [1] Vaswani et al. 2017, "Attention Is All You Need", eq. 3, scaled so that its peak is r.
/// [2] Loshchilov & Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts", eq. 5,
///     without restarts.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// The learning rate of a step, >= 0.
  ///
  /// step    from 1: optimizer.steps() + 1 for the next step
  /// throws  ValueError if step is 0.
  double learning_rate(std::uint64_t step) const;

 private:
  /// The rate at step t >= 1.
  virtual double rate(double t) const = 0;
};

/// The schedule of `options.kind`.
///
/// throws  ValueError; see validate().
std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options);

}  // namespace tapestry
