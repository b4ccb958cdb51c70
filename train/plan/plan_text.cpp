// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "data/io/utf8.h"
#include "train/base/format.h"
#include "train/models/model_summary.h"
#include "train/plan/run_plan.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

/// Formats a duration as "12.3 ms" or "1.23 s".
std::string short_time(double seconds) {
  return seconds < 1.0 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

std::string epoch_line(const RunPlan& plan) {
  std::string line = fmt::format("epoch: {} steps of {} {}; ", format_count(plan.steps_per_epoch()),
                                 format_count(plan.config.train.accumulate),
                                 plan.config.train.accumulate == 1 ? "batch" : "batches");
  if (plan.has_lengths) {
    line += fmt::format("{} tokens and {} positions of padding ({:.1f} %); ",
                        format_count(plan.epoch.positions - plan.epoch.padding),
                        format_count(plan.epoch.padding), 100 * plan.padding_share());
  }
  const double epochs =
      static_cast<double>(plan.config.train.steps * plan.config.train.accumulate) /
      static_cast<double>(plan.epoch.batches);
  return line +
         fmt::format("{:.2f} epochs in {} steps\n", epochs, format_count(plan.config.train.steps));
}

std::string step_lines(const RunPlan& plan) {
  const PlannedStep& step = plan.step;
  return fmt::format(
      "step: {} (median of {} steps; 10th to 90th percentile: {} to {}), {} {}/s\n"
      "  waiting for batches {}, forward and backward {}, optimizer update {}\n",
      short_time(step.median), step.measured, short_time(step.low), short_time(step.high),
      format_count(static_cast<std::uint64_t>(step.targets / step.median)), plan.target_noun,
      short_time(step.preparation), short_time(step.gradients), short_time(step.update));
}

std::string threads_line(const PlannedThreads& threads) {
  if (threads.times.empty()) {
    return fmt::format("threads: {}; {}\n", threads.set,
                       threads.cores == 1 ? "there is one core"
                                          : "other numbers of threads were not measured, since a "
                                            "step takes longer than --seconds");
  }
  std::string times;
  for (const ThreadTime& time : threads.times) {
    times += fmt::format("{}{} with {}{}", times.empty() ? "" : ", ", short_time(time.seconds),
                         time.threads, time.threads == threads.set ? " (configured)" : "");
  }
  return fmt::format("threads: a step takes {}\n", times);
}

std::string validation_line(const PlannedValidations& validations) {
  if (validations.count == 0) return "validation: no validation set\n";
  std::string decoding;
  if (validations.decoded > 0) {
    decoding = fmt::format(" and {} for decoding {} sequences", short_time(validations.decoding),
                           format_count(validations.decoded));
  }
  return fmt::format("validation: {} time{}, each {} for scoring{}\n",
                     format_count(validations.count), validations.count == 1 ? "" : "s",
                     short_time(validations.scoring), decoding);
}

std::string checkpoints_line(const PlannedCheckpoints& checkpoints) {
  return fmt::format(
      "checkpoints: {} each, up to {} files with {} in total; {}\n",
      format_bytes(checkpoints.bytes), checkpoints.files, format_bytes(checkpoints.total_bytes()),
      checkpoints.free_disk ? format_bytes(*checkpoints.free_disk) + " of disk space free"
                            : "free disk space unknown");
}

std::string division_lines(const RunPlan& plan) {
  if (!plan.division) return "";
  const StepDivision& division = *plan.division;
  const auto [min, max] = std::ranges::minmax(division.micro_batches);
  return fmt::format(
      "processes: {} with {}{} micro-batches each; a step takes {} plus the time for sending "
      "{} that does not overlap with the backward pass\n"
      "  memory per process: {} in addition to the data; rank 0 needs {} more while it saves or "
      "averages checkpoints\n",
      division.micro_batches.size(), min == max ? "" : fmt::format("{} to ", min), max,
      short_time(division.compute), format_bytes(division.sent), format_bytes(division.memory),
      format_bytes(plan.memory.need.for_checkpoints()));
}

std::string total_line(const RunPlan& plan) {
  const auto share = [&](double part) {
    return fmt::format("{:.1f} %", 100 * part / plan.total());
  };
  return fmt::format("time: {} ({}); training steps {}, validation {}, startup {}\n",
                     duration_in_words(plan.total()), format_duration(plan.total()),
                     share(plan.all_steps()), share(plan.validations.total()), share(plan.startup));
}

std::string limit_lines(const RunPlan& plan) {
  if (plan.limits.empty()) return "limits: none\n";
  std::string text = "limits:\n";
  for (const Limit& limit : plan.limits) {
    text += fmt::format("  {}\n", escaped_lines(limit.what));
    if (!limit.change.empty()) text += fmt::format("    {}\n", escaped_lines(limit.change));
  }
  return text;
}

Json epoch_json(const RunPlan& plan) {
  Json json = {{"steps", plan.steps_per_epoch()},
               {"batches", plan.epoch.batches},
               {"examples", plan.epoch.examples}};
  if (plan.has_lengths) {
    json["tokens"] = plan.epoch.positions - plan.epoch.padding;
    json["padding"] = plan.epoch.padding;
    json["padding_share"] = plan.padding_share();
  }
  return json;
}

Json threads_json(const PlannedThreads& threads) {
  Json times = Json::array();
  for (const ThreadTime& time : threads.times) {
    times.push_back({{"threads", time.threads}, {"step_seconds", time.seconds}});
  }
  return {{"set", threads.set}, {"cores", threads.cores}, {"measured", std::move(times)}};
}

Json memory_json(const PlannedMemory& memory) {
  const std::uint64_t free = memory.available.free;
  return {{"peak_bytes", memory.peak},
          {"needed_beside_data_bytes", memory.need.total()},
          {"model_and_optimizer_bytes", memory.need.state},
          {"largest_step_bytes", memory.need.step},
          {"validation_bytes", memory.need.validation},
          {"saving_bytes", memory.need.saving},
          {"average_bytes", memory.need.average},
          {"free_bytes", free == AvailableMemory::no_limit ? Json(nullptr) : Json(free)}};
}

Json step_json(const PlannedStep& step) {
  return {{"seconds", step.median},
          {"seconds_10th_percentile", step.low},
          {"seconds_90th_percentile", step.high},
          {"measured_steps", step.measured},
          {"batch_seconds", step.preparation},
          {"gradient_seconds", step.gradients},
          {"update_seconds", step.update},
          {"targets", step.targets}};
}

Json division_json(const RunPlan& plan) {
  if (!plan.division) return nullptr;
  const StepDivision& division = *plan.division;
  return {{"processes", division.micro_batches.size()},
          {"micro_batches", division.micro_batches},
          {"compute_seconds", division.compute},
          {"sent_bytes", division.sent},
          {"memory_bytes", division.memory}};
}

}  // namespace

std::string plan_text(const RunPlan& plan) {
  std::string text;
  for (const std::string& line : plan.description) text += escaped(line) + "\n";
  text += to_line(plan.memory.need, plan.memory.largest_step, plan.memory.available) + "\n";
  text +=
      fmt::format("peak memory: {} measured, including the data\n", format_bytes(plan.memory.peak));
  return text + epoch_line(plan) + step_lines(plan) + threads_line(plan.threads) +
         validation_line(plan.validations) + checkpoints_line(plan.checkpoints) +
         division_lines(plan) + total_line(plan) + limit_lines(plan);
}

std::string plan_json(const RunPlan& plan) {
  Json limits = Json::array();
  for (const Limit& limit : plan.limits) {
    limits.push_back({{"what", limit.what}, {"change", limit.change}});
  }
  const Json json = {
      {"run_dir", plan.config.train.run_dir},
      {"steps", plan.config.train.steps},
      {"model", to_json(plan.model)},
      {"epoch", epoch_json(plan)},
      {"memory", memory_json(plan.memory)},
      {"step", step_json(plan.step)},
      {"threads", threads_json(plan.threads)},
      {"validation",
       {{"times", plan.validations.count},
        {"scoring_seconds", plan.validations.scoring},
        {"decoding_seconds", plan.validations.decoding},
        {"decoded", plan.validations.decoded}}},
      {"checkpoints",
       {{"bytes", plan.checkpoints.bytes},
        {"files", plan.checkpoints.files},
        {"free_disk_bytes",
         plan.checkpoints.free_disk ? Json(*plan.checkpoints.free_disk) : Json(nullptr)}}},
      {"processes", division_json(plan)},
      {"time",
       {{"seconds", plan.total()},
        {"start_seconds", plan.startup},
        {"step_seconds", plan.all_steps()},
        {"validation_seconds", plan.validations.total()}}},
      {"limits", std::move(limits)},
      {"description", plan.description}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tapestry
