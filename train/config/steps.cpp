// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <variant>

#include "train/base/format.h"
#include "train/config/error.h"
#include "train/config/fields.h"

namespace tapestry {
namespace {

/// A key that is a number of steps.
struct StepKey {
  std::string path;
  std::uint64_t steps;
};

std::vector<StepKey> step_keys(const Config& config) {
  std::vector<StepKey> keys;
  for (const Field& field : fields_of(config)) {
    if (!field.domain.is<StepCount>()) continue;
    keys.push_back({field.path(), std::get<std::uint64_t>(field.value)});
  }
  return keys;
}

}  // namespace

bool leaves_no_decay(const Config& config) {
  const ScheduleOptions& schedule = config.schedule;
  const std::size_t end = schedule.decay_steps == 0 ? config.train.steps : schedule.decay_steps;
  return schedule.kind == ScheduleKind::cosine && schedule.warmup_steps >= end;
}

void resolve_percentages(Config& config) {
  for_each_field(config, [&](Field& field) {
    const auto found = config.step_percentages.find(field.path());
    if (found == config.step_percentages.end()) return;
    const double steps = found->second.percent * static_cast<double>(config.train.steps) / 100.0;
    const bool may_be_0 =
        found->first == "schedule.warmup_steps" && config.schedule.kind == ScheduleKind::cosine;
    field.value =
        std::max<std::uint64_t>(static_cast<std::uint64_t>(std::llround(steps)), may_be_0 ? 0 : 1);
  });
}

void keep_resolved_percentages(Config& config, const Config& before,
                               const std::vector<std::string>& allowed) {
  if (config.schedule.kind != before.schedule.kind) return;
  std::map<std::string, std::uint64_t> kept;
  for (const StepKey& key : step_keys(before)) {
    const auto percentage = config.step_percentages.find(key.path);
    if (percentage == config.step_percentages.end() || percentage->second.in_override) continue;
    if (std::ranges::find(allowed, key.path) == allowed.end()) kept[key.path] = key.steps;
  }
  for_each_field(config, [&](Field& field) {
    const auto steps = kept.find(field.path());
    if (steps == kept.end()) return;
    field.value = steps->second;
    config.step_percentages.erase(steps->first);
  });
}

std::optional<std::string> describe_percentages(const Config& config) {
  std::vector<std::string> keys;
  for (const auto& [path, steps] : step_keys(config)) {
    const auto found = config.step_percentages.find(path);
    if (found == config.step_percentages.end()) continue;
    keys.push_back(fmt::format("{} {}% = {}", path, found->second.percent, format_count(steps)));
  }
  if (keys.empty()) return std::nullopt;
  return fmt::format("of {} steps: {}", format_count(config.train.steps), fmt::join(keys, ", "));
}

void resolve_epochs(Config& config, std::size_t batches, std::uint64_t step,
                    BatchPosition position) {
  TrainOptions& train = config.train;
  if (train.epochs == 0) return;
  const std::uint64_t per_epoch = batches;
  const std::uint64_t all = train.epochs * per_epoch;
  const std::uint64_t done = position.epoch * per_epoch + position.batch;
  const std::uint64_t left = all > done ? all - done : 0;
  const std::uint64_t steps = step + (left + train.accumulate - 1) / train.accumulate;
  if (steps > max_step_count) {
    throw ConfigError({{.place = {.file = "train.epochs"},
                        .message = fmt::format("{} epochs of {} batches are {} steps, expected at "
                                               "most {}",
                                               train.epochs, per_epoch, steps, max_step_count),
                        .hint = "lower train.epochs"}});
  }
  train.steps = steps;
  train.epochs = 0;
  resolve_percentages(config);
  if (leaves_no_decay(config)) {
    const std::size_t end = config.schedule.decay_steps;
    throw ConfigError(
        {{.place = {.file = "schedule.warmup_steps"},
          .message = fmt::format("found {}, which leaves no step for the decay, which "
                                 "ends at step {}",
                                 config.schedule.warmup_steps, end == 0 ? steps : end),
          .hint = "write a percentage such as 5%, or raise train.epochs"}});
  }
}

}  // namespace tapestry
