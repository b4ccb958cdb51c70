#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "data/batch_schedule.h"
#include "train/divergence_watch.h"
#include "train/metrics.h"

namespace tapestry {

/// Sums since metrics were last logged.
struct RunningLoss {
  double loss_sum = 0.0;  ///< of the objective over target tokens
  double nll_sum = 0.0;   ///< of -log p(token)
  std::uint64_t tokens = 0;
};

/// All of a run's state besides parameters and optimiser. Positions are integers and random numbers
/// are counters derived from the step, so there is no generator state to lose.
struct TrainingState {
  std::uint64_t step = 0;    ///< optimiser steps done, skipped ones included
  BatchPosition position{};  ///< of the next batch
  RunningLoss running{};
  double best_loss = std::numeric_limits<double>::infinity();  ///< of all validations
  std::optional<std::uint64_t> best_step{};                    ///< where that was
  std::uint64_t validations_since_best = 0;
  std::uint64_t nan_steps = 0;       ///< steps in a row, or rollbacks to one checkpoint
  std::uint64_t scheduled_save = 0;  ///< step of the last save that no signal asked for
  DivergenceWatch divergence{};
  /// What has come between the run and the config it was started with, a line each: changed keys
  /// and data, steps that were not finite.
  std::string history{};
  MetricsTable metrics{};
};

}  // namespace tapestry
