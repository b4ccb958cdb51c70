// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "train/base/format.h"
#include "train/loop/memory_need.h"
#include "train/loop/run_description.h"
#include "train/plan/run_plan.h"

namespace tapestry {
namespace {

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

void add_shortages(const RunPlan& plan, std::vector<Limit>& limits) {
  const auto memory = find_memory_shortage(plan.memory.need, plan.memory.available, plan.config);
  if (memory) limits.push_back({.what = memory->found, .change = memory->hint});
  const PlannedCheckpoints& checkpoints = plan.checkpoints;
  if (checkpoints.free_disk && *checkpoints.free_disk < checkpoints.total_bytes()) {
    limits.push_back(
        {.what = fmt::format("checkpoints take up to {}, and the disk has {} of free space",
                             format_bytes(checkpoints.total_bytes()),
                             format_bytes(*checkpoints.free_disk)),
         .change = "free disk space, set train.run_dir to another disk, or lower train.keep_last"});
  }
  const auto max_time = static_cast<double>(plan.config.train.max_time.count());
  if (max_time > 0.0 && plan.total() > max_time) {
    limits.push_back({.what = fmt::format("train.max_time stops the run after {}, before its end",
                                          duration_in_words(max_time)),
                      .change = "resume the run, or raise train.max_time"});
  }
}

void add_threads(const PlannedThreads& threads, std::vector<Limit>& limits) {
  constexpr double min_gain = 1.05;
  const auto set = std::ranges::find(threads.times, threads.set, &ThreadTime::threads);
  if (set == threads.times.end()) return;
  const ThreadTime best = *std::ranges::min_element(threads.times, {}, &ThreadTime::seconds);
  const double gain = set->seconds / best.seconds;
  if (gain < min_gain) return;
  limits.push_back(
      {.what = fmt::format("too {} threads: {} {} {:.2f} times as fast as {}",
                           best.threads < threads.set ? "many" : "few", best.threads,
                           best.threads == 1 ? "is" : "are", gain, threads.set),
       .change = fmt::format("set train.threads={}, which does not change results", best.threads)});
}

void add_batches(const RunPlan& plan, std::vector<Limit>& limits) {
  constexpr double max_padding = 0.15, max_waiting = 0.1;
  if (plan.padding_share() >= max_padding) {
    limits.push_back(
        {.what = fmt::format("padding is {} of all positions", percent(plan.padding_share())),
         .change = ""});
  }
  const double waiting = plan.step.preparation / std::max(plan.step.median, 1e-9);
  if (waiting >= max_waiting) {
    limits.push_back(
        {.what = fmt::format("steps spend {} of their time waiting for batches", percent(waiting)),
         .change = ""});
  }
}

void add_validations(const RunPlan& plan, std::vector<Limit>& limits) {
  constexpr double max_share = 0.2;
  const PlannedValidations& validations = plan.validations;
  const double share = validations.total() / plan.total();
  if (share < max_share) return;
  const double decoding = validations.decoding / (validations.scoring + validations.decoding);
  Limit limit{
      .what = fmt::format("validation takes {} of the run, {} of it for decoding", percent(share),
                          percent(decoding)),
      .change = fmt::format("raise train.validate_every ({})", plan.config.train.validate_every)};
  if (decoding > 0.5) {
    limit.change += fmt::format(", or lower train.exact_match_sequences ({})",
                                plan.config.train.exact_match_sequences);
  }
  limits.push_back(std::move(limit));
}

}  // namespace

std::vector<Limit> find_limits(const RunPlan& plan) {
  std::vector<Limit> limits;
  add_shortages(plan, limits);
  if (const auto problem = find_rate_problem(plan.config)) {
    limits.push_back({.what = problem->found, .change = problem->change});
  }
  add_threads(plan.threads, limits);
  add_batches(plan, limits);
  add_validations(plan, limits);
  return limits;
}

}  // namespace tapestry
