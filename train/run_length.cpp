#include "train/run_length.h"

#include <fmt/format.h>

#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/percentages.h"

namespace tapestry {

void resolve_epochs(Config& config, std::size_t batches, std::uint64_t step,
                    BatchPosition position) {
  TrainOptions& train = config.train;
  if (train.epochs == 0) return;
  const std::uint64_t per_epoch = batches;
  const std::uint64_t all = train.epochs * per_epoch;
  const std::uint64_t done = position.epoch * per_epoch + position.batch;
  const std::uint64_t left = all > done ? all - done : 0;
  const std::uint64_t steps = step + (left + train.accumulate - 1) / train.accumulate;
  if (steps > most_steps) {
    throw ConfigError({{.place = {.file = "train.epochs"},
                        .message = fmt::format("{} epochs of {} batches are {} steps, expected at "
                                               "most {}",
                                               train.epochs, per_epoch, steps, most_steps),
                        .hint = "lower train.epochs"}});
  }
  train.steps = steps;
  train.epochs = 0;
  resolve_percentages(config);
  const ScheduleOptions& schedule = config.schedule;
  const std::size_t end = schedule.decay_steps == 0 ? steps : schedule.decay_steps;
  if (schedule.kind == ScheduleKind::cosine && schedule.warmup_steps >= end) {
    throw ConfigError(
        {{.place = {.file = "schedule.warmup_steps"},
          .message = fmt::format("found {}, which leaves no step for the decay, which "
                                 "ends at step {}",
                                 schedule.warmup_steps, end),
          .hint = "give it as a percentage such as 5%, or raise train.epochs"}});
  }
}

}  // namespace tapestry
