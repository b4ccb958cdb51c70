#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "data/io/utf8.h"
#include "train/base/format.h"
#include "train/models/model_json.h"
#include "train/plan/run_plan.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

/// "12.3 ms", "1.23 s"
std::string short_time(double seconds) {
  return seconds < 1.0 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

std::string epoch_line(const RunPlan& plan) {
  std::string line = fmt::format("epoch: {} steps of {} {}; ", format_count(plan.steps_per_epoch()),
                                 format_count(plan.config.train.accumulate),
                                 plan.config.train.accumulate == 1 ? "batch" : "batches");
  if (plan.has_lengths) {
    line += fmt::format("{} tokens and {} of padding ({:.1f} %); ",
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
  const StepTimes& step = plan.step;
  return fmt::format(
      "step: {} (median of {} steps; 10th percentile {}, 90th {}), {} {}/s\n"
      "  waiting for batches {}, forward and backward {}, update {}\n",
      short_time(step.median), step.steps, short_time(step.low), short_time(step.high),
      format_count(static_cast<std::uint64_t>(plan.targets / step.median)), plan.target_noun,
      short_time(plan.preparation), short_time(plan.gradients), short_time(plan.update));
}

std::string threads_line(const RunPlan& plan) {
  if (plan.thread_times.empty()) {
    return fmt::format("threads: {}; {}\n", plan.threads,
                       plan.cores == 1 ? "there is one core"
                                       : "others were not measured, since a step takes long");
  }
  std::string times;
  for (const ThreadTime& time : plan.thread_times) {
    times += fmt::format("{}{}: {}{}", times.empty() ? "" : ", ", time.threads,
                         short_time(time.seconds), time.threads == plan.threads ? " (set)" : "");
  }
  return fmt::format("threads: time of a step with {}\n", times);
}

std::string validation_line(const RunPlan& plan) {
  if (plan.validations == 0) return "validation: none, there is no validation set\n";
  const std::string decoding =
      plan.decoded == 0 ? ""
                        : fmt::format(" and decoding of {} sequences {}",
                                      format_count(plan.decoded), short_time(plan.decoding));
  return fmt::format("validation: {} x, scores {}{}\n", format_count(plan.validations),
                     short_time(plan.scoring), decoding);
}

std::string checkpoints_line(const RunPlan& plan) {
  return fmt::format(
      "checkpoints: {} each, up to {} files of {}; {}\n", format_bytes(plan.checkpoint_bytes),
      plan.checkpoints, format_bytes(plan.checkpoints * plan.checkpoint_bytes),
      plan.free_disk ? format_bytes(*plan.free_disk) + " of the disk free" : "free disk unknown");
}

std::string division_lines(const RunPlan& plan) {
  if (!plan.division) return "";
  const StepDivision& division = *plan.division;
  const auto [min, max] = std::ranges::minmax(division.micro_batches);
  return fmt::format(
      "processes: {} of {}{} micro-batches each; a step takes {}, and the time of sending {}, as "
      "far as it does not overlap\n"
      "  memory of a process: {} beside the data, and {} more in rank 0 while it saves or averages "
      "checkpoints\n",
      division.micro_batches.size(), min == max ? "" : fmt::format("{} to ", min), max,
      short_time(division.compute), format_bytes(division.sent), format_bytes(division.memory),
      format_bytes(plan.need.of_checkpoints()));
}

std::string total_line(const RunPlan& plan) {
  const auto share = [&](double part) {
    return fmt::format("{:.1f} %", 100 * part / plan.total());
  };
  return fmt::format("time: {} ({}): steps {}, validation {}, start {}\n",
                     duration_in_words(plan.total()), format_duration(plan.total()),
                     share(plan.all_steps()), share(plan.all_validations()), share(plan.start));
}

std::string limit_lines(const RunPlan& plan) {
  if (plan.limits.empty()) return "limits: none found; the time is that of the computation\n";
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

Json threads_json(const RunPlan& plan) {
  Json times = Json::array();
  for (const ThreadTime& time : plan.thread_times) {
    times.push_back({{"threads", time.threads}, {"step_seconds", time.seconds}});
  }
  return {{"set", plan.threads}, {"cores", plan.cores}, {"measured", std::move(times)}};
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
  text += to_line(plan.need, plan.largest_step, plan.available) + "\n";
  text += fmt::format("peak memory: {}, measured, with the data\n", format_bytes(plan.peak_memory));
  return text + epoch_line(plan) + step_lines(plan) + threads_line(plan) + validation_line(plan) +
         checkpoints_line(plan) + division_lines(plan) + total_line(plan) + limit_lines(plan);
}

std::string plan_json(const RunPlan& plan) {
  Json limits = Json::array();
  for (const Limit& limit : plan.limits) {
    limits.push_back({{"what", limit.what}, {"change", limit.change}});
  }
  const std::uint64_t free = plan.available.free;
  const Json json = {
      {"run_dir", plan.config.train.run_dir},
      {"steps", plan.config.train.steps},
      {"model", to_json(plan.model)},
      {"epoch", epoch_json(plan)},
      {"memory",
       {{"peak_bytes", plan.peak_memory},
        {"needed_beside_data_bytes", plan.need.total()},
        {"model_and_optimizer_bytes", plan.need.state},
        {"largest_step_bytes", plan.need.step},
        {"validation_bytes", plan.need.validation},
        {"saving_bytes", plan.need.saving},
        {"average_bytes", plan.need.average},
        {"free_bytes", free == AvailableMemory::no_limit ? Json(nullptr) : Json(free)}}},
      {"step",
       {{"seconds", plan.step.median},
        {"seconds_10th_percentile", plan.step.low},
        {"seconds_90th_percentile", plan.step.high},
        {"measured_steps", plan.step.steps},
        {"batch_seconds", plan.preparation},
        {"gradient_seconds", plan.gradients},
        {"update_seconds", plan.update},
        {"targets", plan.targets}}},
      {"threads", threads_json(plan)},
      {"validation",
       {{"times", plan.validations},
        {"scoring_seconds", plan.scoring},
        {"decoding_seconds", plan.decoding},
        {"decoded", plan.decoded}}},
      {"checkpoints",
       {{"bytes", plan.checkpoint_bytes},
        {"files", plan.checkpoints},
        {"free_disk_bytes", plan.free_disk ? Json(*plan.free_disk) : Json(nullptr)}}},
      {"processes", division_json(plan)},
      {"time",
       {{"seconds", plan.total()},
        {"start_seconds", plan.start},
        {"step_seconds", plan.all_steps()},
        {"validation_seconds", plan.all_validations()}}},
      {"limits", std::move(limits)},
      {"description", plan.description}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tapestry
