#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "data/io/utf8.h"
#include "train/cli/plan_report.h"
#include "train/format.h"

namespace tapestry::plan_cli {
namespace {

/// "12.3 ms", "1.23 s"
std::string short_time(double seconds) {
  return seconds < 1.0 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

std::string share(double part, const RunPlan& plan) {
  return fmt::format("{:.1f} %", 100 * part / plan.total());
}

void print_epoch(const PlanReport& report) {
  const RunPlan& plan = report.plan;
  std::string text =
      fmt::format("epoch: {} steps of {} {}; ", format_count(plan.steps_per_epoch()),
                  format_count(plan.accumulate), plan.accumulate == 1 ? "batch" : "batches");
  if (plan.has_lengths) {
    text += fmt::format("{} tokens and {} of padding ({:.1f} %); ",
                        format_count(plan.epoch.positions - plan.epoch.padding),
                        format_count(plan.epoch.padding), 100 * plan.padding_share());
  }
  fmt::print("{}{:.2f} epochs in {} steps\n", text,
             static_cast<double>(plan.steps) * static_cast<double>(plan.accumulate) /
                 static_cast<double>(plan.epoch.batches),
             format_count(plan.steps));
}

void print_step(const PlanReport& report) {
  const RunPlan& plan = report.plan;
  const StepDistribution& step = plan.step;
  fmt::print("step: {} (median of {} steps; 10th percentile {}, 90th {}), {} {}/s\n",
             short_time(step.median), step.steps, short_time(step.low), short_time(step.high),
             format_count(static_cast<std::uint64_t>(plan.targets / step.median)), report.targets);
  fmt::print("  waiting for batches {}, forward and backward {}, update {}\n",
             short_time(plan.preparation), short_time(plan.gradients), short_time(plan.update));
}

void print_threads(const RunPlan& plan) {
  if (plan.thread_times.empty()) {
    const bool is_only_choice = plan.cores == 1 && plan.threads == 1;
    fmt::print("threads: {}; {}\n", plan.threads,
               is_only_choice ? "there is one core"
                              : "others were not measured, since a step takes long (--seconds)");
    return;
  }
  std::string text;
  for (const ThreadTime& time : plan.thread_times) {
    text += fmt::format("{}{}: {}{}", text.empty() ? "" : ", ", time.threads,
                        short_time(time.seconds), time.threads == plan.threads ? " (set)" : "");
  }
  fmt::print("threads: time of a step with {}\n", text);
}

void print_larger_batch(const RunPlan& plan) {
  if (!plan.larger_batch) return;
  const BatchTrial& trial = *plan.larger_batch;
  const bool tokens = trial.batch_tokens != 0;
  fmt::print("batches of twice the size ({}={}, train.accumulate={}): {:.2f} times the speed\n",
             tokens ? "train.batch_tokens" : "train.batch_size",
             tokens ? trial.batch_tokens : trial.batch_size, trial.accumulate, trial.speedup);
}

/// "once", "2 times"
std::string number_of_times(std::uint64_t number) {
  return number == 1 ? "once" : format_count(number) + " times";
}

void print_validation(const RunPlan& plan) {
  if (plan.validations == 0) {
    fmt::print("validation: none, there is no validation set\n");
    return;
  }
  const std::string decoding =
      plan.decoded == 0 ? ""
                        : fmt::format(" and decoding of {} sequences {}",
                                      format_count(plan.decoded), short_time(plan.decoding));
  fmt::print("validation: {}, scores {}{}{}\n", number_of_times(plan.validations),
             short_time(plan.scoring), decoding,
             plan.whole_validation ? "" : " (from a part of the set)");
}

void print_saving(const RunPlan& plan) {
  const std::string times = plan.saves.fewest == plan.saves.most
                                ? number_of_times(plan.saves.most)
                                : fmt::format("{} to {}", format_count(plan.saves.fewest),
                                              number_of_times(plan.saves.most));
  fmt::print(
      "saving: {}, {} without the time of the disk; a checkpoint of {}, up to {} of "
      "them {}; {}\n",
      times, short_time(plan.saving), format_bytes(plan.checkpoint_bytes), plan.checkpoints,
      format_bytes(plan.checkpoints * plan.checkpoint_bytes),
      plan.free_disk ? fmt::format("{} of the disk free", format_bytes(*plan.free_disk))
                     : "free disk unknown");
}

void print_reports(const RunPlan& plan) {
  if (plan.reports == 0) return;
  fmt::print("report: {} {}, {} without the curves and the time of the disk\n",
             format_count(plan.reports), plan.reports == 1 ? "time" : "times",
             short_time(plan.reporting));
}

std::string network_text(const ParallelOptions& options) {
  std::string text = fmt::format("{:.4g} Gbit/s and {:.4g} us", options.bandwidth, options.latency);
  if (options.compute) {
    text += fmt::format(", micro-batches of {}", short_time(*options.compute));
  }
  return text;
}

void print_division(const PlanReport& report) {
  if (!report.parallel.division) return;
  const StepDivision& division = *report.parallel.division;
  const SimulatedStep& step = report.parallel.step->step;
  const auto [fewest, most] = std::ranges::minmax(division.micro_batches);
  fmt::print("processes: {} of {} micro-batches each{}\n", division.micro_batches.size(),
             fewest == most ? fmt::to_string(most) : fmt::format("{} to {}", fewest, most),
             division.idle_share > 0.0
                 ? fmt::format("; processes wait {:.1f} % of the time of gradients",
                               100 * division.idle_share)
                 : "");
  fmt::print("  a process sends up to {} in a step ({} is the least), all together {}\n",
             format_bytes(division.most_sent), format_bytes(division.least_sent),
             format_bytes(division.all_sent));
  fmt::print(
      "  simulated for {}: a step takes {}, {:.2f} times the speed of one process (efficiency "
      "{:.1f} %)\n",
      network_text(report.parallel.options), short_time(step.seconds),
      step.one_process / step.seconds, 100 * step.efficiency);
  fmt::print("  computing takes {}, exchange {}, {} of it overlapped with computing\n",
             short_time(step.compute), short_time(step.exchange), short_time(step.overlap));
  const MemoryNeed& need = report.plan.need;
  fmt::print("  memory of a process: {} beside the data, and {} more in rank 0 while it {}\n",
             format_bytes(report.parallel.step->memory), format_bytes(need.of_checkpoints()),
             need.average > need.saving ? "averages the last checkpoints" : "saves");
}

/// The step and the bytes of the first network, and the efficiency of all.
void print_scaling(const PlanReport& report) {
  if (report.parallel.scalings.empty()) return;
  const Scaling& given = report.parallel.scalings.front();
  fmt::print("scaling: simulated for {} {} in each process, and {}; efficiency of other networks\n",
             report.plan.accumulate, report.plan.accumulate == 1 ? "micro-batch" : "micro-batches",
             network_text(report.parallel.options));
  fmt::print("  {:>9}  {:>9}  {:>9}  {:>9}", "processes", "step", "sent", "memory");
  for (const Scaling& scaling : report.parallel.scalings)
    fmt::print("  {:>19}", scaling.network.name);
  fmt::print("\n");
  for (std::size_t i = 0; i < given.steps.size(); ++i) {
    const ParallelStep& row = given.steps[i];
    fmt::print("  {:>9}  {:>9}  {:>9}  {:>9}", row.processes, short_time(row.step.seconds),
               format_bytes(row.step.sent), format_bytes(row.memory));
    for (const Scaling& scaling : report.parallel.scalings) {
      fmt::print("  {:>17.1f} %", 100 * scaling.steps[i].step.efficiency);
    }
    fmt::print("\n");
  }
}

void print_total(const RunPlan& plan) {
  const std::string reports =
      plan.reports == 0 ? "" : fmt::format(", reports {}", share(plan.all_reports(), plan));
  fmt::print("time: {} ({}): steps {}, validation {}, saving {}{}, start {}\n",
             duration_in_words(plan.total()), format_duration(plan.total()),
             share(plan.all_steps(), plan), share(plan.all_validations(), plan),
             share(plan.all_saves(), plan), reports, share(plan.start, plan));
}

}  // namespace

void print_text(const PlanReport& report) {
  for (const std::string& line : report.description) fmt::print("{}\n", escaped(line));
  const RunPlan& plan = report.plan;
  fmt::print("{}\n", to_line(plan.need, report.largest_step, plan.available));
  fmt::print("peak memory: {}, measured, with the data\n", format_bytes(plan.peak_memory));
  print_epoch(report);
  print_step(report);
  print_threads(plan);
  print_larger_batch(plan);
  print_validation(plan);
  print_saving(plan);
  print_reports(plan);
  print_division(report);
  print_scaling(report);
  print_total(plan);
  if (report.limits.empty()) {
    fmt::print("limits: none found; the time is that of the computation\n");
    return;
  }
  fmt::print("limits:\n");
  for (const Limit& limit : report.limits) {
    fmt::print("  {}\n", escaped_lines(limit.what));
    if (!limit.change.empty()) fmt::print("    {}\n", escaped_lines(limit.change));
  }
}

}  // namespace tapestry::plan_cli
