#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "data/batch_schedule.h"
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
  std::uint64_t step = 0;    ///< optimiser steps done
  BatchPosition position{};  ///< of the next batch
  RunningLoss running{};
  double best_loss = std::numeric_limits<double>::infinity();  ///< of all validations
  std::optional<std::uint64_t> best_step{};                    ///< where that was
  MetricsTable metrics{};
};

}  // namespace tapestry
