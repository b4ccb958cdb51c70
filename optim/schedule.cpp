// SPDX-License-Identifier: BSD-3-Clause
#include "optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "autograd/error.h"
#include "autograd/kernels/portable_math.h"

namespace tapestry {
namespace {

template <class Value>
void require_option(bool valid, const char* option, Value value, std::string_view expected) {
  if (!valid) {
    throw ValueError(fmt::format("schedule: {} is {}, expected {}", option, value, expected));
  }
}

void require_fall(const ScheduleOptions& options) {
  require_option(options.min_learning_rate <= options.learning_rate, "min_learning_rate",
                 printable(options.min_learning_rate),
                 fmt::format("at most learning_rate ({})", printable(options.learning_rate)));
  require_option(options.decay_steps > options.warmup_steps, "decay_steps", options.decay_steps,
                 fmt::format("more than warmup_steps ({})", options.warmup_steps));
}

}  // namespace

void validate(const ScheduleOptions& options) {
  require_option(options.learning_rate > 0.0 && std::isfinite(options.learning_rate),
                 "learning_rate", printable(options.learning_rate), "a finite number > 0");
  require_option(options.min_learning_rate >= 0.0 && std::isfinite(options.min_learning_rate),
                 "min_learning_rate", printable(options.min_learning_rate), "a finite number >= 0");
  require_option(options.kind != ScheduleKind::constant || options.warmup_steps == 0,
                 "warmup_steps", options.warmup_steps,
                 "0 with kind constant; kind linear_warmup is constant after a warm-up");
  if (options.kind == ScheduleKind::cosine) require_fall(options);
}

namespace {

double effective_warmup(const ScheduleOptions& options) {
  return static_cast<double>(std::max<std::size_t>(options.warmup_steps, 1));
}

class Constant : public Schedule {
 public:
  explicit Constant(const ScheduleOptions& options) : peak_(options.learning_rate) {}

 private:
  double rate(double) const override { return peak_; }

  double peak_;
};

class LinearWarmup : public Schedule {
 public:
  explicit LinearWarmup(const ScheduleOptions& options)
      : peak_(options.learning_rate), warmup_(effective_warmup(options)) {}

 private:
  double rate(double t) const override { return peak_ * std::min(t / warmup_, 1.0); }

  double peak_, warmup_;
};

class InverseSqrt : public Schedule {
 public:
  explicit InverseSqrt(const ScheduleOptions& options)
      : peak_(options.learning_rate), warmup_(effective_warmup(options)) {}

 private:
  double rate(double t) const override {
    return peak_ * std::min(t / warmup_, std::sqrt(warmup_ / t));
  }

  double peak_, warmup_;
};

class Cosine : public Schedule {
 public:
  explicit Cosine(const ScheduleOptions& options)
      : peak_(options.learning_rate),
        floor_(options.min_learning_rate),
        warmup_(static_cast<double>(options.warmup_steps)),
        end_(static_cast<double>(options.decay_steps)) {}

 private:
  double rate(double t) const override {
    if (t < warmup_) return peak_ * (t / warmup_);
    if (t >= end_) return floor_;
    const double phase = (t - warmup_) / (end_ - warmup_);
    const double share = 0.5 * (1.0 + portable::cos(std::numbers::pi * phase));
    return share * peak_ + (1.0 - share) * floor_;
  }

  double peak_, floor_, warmup_, end_;
};

}  // namespace

double Schedule::learning_rate(std::uint64_t step) const {
  if (step == 0) throw ValueError("schedule: step is 0, expected 1 or more: steps count from 1");
  return rate(static_cast<double>(step));
}

std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options) {
  validate(options);
  switch (options.kind) {
    case ScheduleKind::constant:
      return std::make_unique<Constant>(options);
    case ScheduleKind::linear_warmup:
      return std::make_unique<LinearWarmup>(options);
    case ScheduleKind::inverse_sqrt:
      return std::make_unique<InverseSqrt>(options);
    case ScheduleKind::cosine:
      return std::make_unique<Cosine>(options);
  }
  throw ValueError(
      fmt::format("schedule: kind is {}, expected constant, linear_warmup, inverse_sqrt or cosine",
                  static_cast<int>(options.kind)));
}

}  // namespace tapestry
