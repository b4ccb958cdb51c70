#pragma once

#include <cstddef>
#include <cstdint>

#include "data/batch_schedule.h"
#include "train/config/config.h"

namespace tapestry {

/// Sets `train.steps` of a config with `train.epochs`, and the percentages of it, and clears
/// `train.epochs`. A config without `train.epochs` is left as it is.
///
/// batches  of every epoch, >= 1: BatchSchedule::batches_per_epoch()
/// step     steps done so far, after which `position` is the next batch
/// throws   ConfigError if these are too many steps, or leave none for the decay.
void resolve_epochs(Config& config, std::size_t batches, std::uint64_t step = 0,
                    BatchPosition position = {});

}  // namespace tapestry
