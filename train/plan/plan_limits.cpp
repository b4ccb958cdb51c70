#include "train/plan/plan_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "train/format.h"
#include "train/memory_need.h"

namespace tapestry {
namespace {

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

void add_shortages(const RunPlan& plan, const Config& config, std::vector<Limit>& limits) {
  if (const auto warning = warning_about_memory(plan.need, plan.available, config)) {
    const std::string text = warning->substr(std::string("warning: ").size());
    const std::size_t end = text.rfind("; ");
    limits.push_back({.what = text.substr(0, end), .change = text.substr(end + 2)});
  }
  const std::uint64_t disk = plan.checkpoints * plan.checkpoint_bytes;
  if (plan.free_disk && *plan.free_disk < disk) {
    limits.push_back(
        {.what = fmt::format("checkpoints take up to {}, and the disk has {} of free space",
                             format_bytes(disk), format_bytes(*plan.free_disk)),
         .change = "free space, set train.run_dir to another disk, or lower "
                   "train.keep_last"});
  }
  const double most = static_cast<double>(config.train.max_time.count());
  if (most > 0.0 && plan.total() > most) {
    limits.push_back({.what = fmt::format("train.max_time stops the run after {}, before its end",
                                          duration_in_words(most)),
                      .change = "resume the run, or raise train.max_time"});
  }
}

void add_threads(const RunPlan& plan, std::vector<Limit>& limits) {
  constexpr double worth_a_change = 1.05;
  const auto set = std::ranges::find(plan.thread_times, plan.threads, &ThreadTime::threads);
  if (set == plan.thread_times.end()) return;
  const ThreadTime best = *std::ranges::min_element(plan.thread_times, {}, &ThreadTime::seconds);
  const double gain = set->seconds / best.seconds;
  if (gain < worth_a_change) return;
  limits.push_back(
      {.what = fmt::format("too {} threads: {} are {:.2f} times as fast as {}",
                           best.threads < plan.threads ? "many" : "few", best.threads, gain,
                           plan.threads),
       .change = fmt::format("set train.threads={}, which changes no result", best.threads)});
}

void add_other_programs(const RunPlan& plan, std::vector<Limit>& limits) {
  constexpr double some = 0.3;
  const double free = static_cast<double>(plan.cores) - plan.busy_cores;
  if (plan.busy_cores < some || free >= static_cast<double>(plan.threads)) return;
  limits.push_back({.what = fmt::format("other programs use {:.1f} of {} cores, so the times here "
                                        "are longer than those of a free machine",
                                        plan.busy_cores, plan.cores),
                    .change = "end them, or measure again later"});
}

void add_batches(const RunPlan& plan, std::vector<Limit>& limits) {
  constexpr double worth_a_change = 1.1;
  const double update = plan.update / std::max(plan.step.median, 1e-9);
  if (!plan.larger_batch || plan.larger_batch->speedup < worth_a_change) return;
  const BatchTrial& trial = *plan.larger_batch;
  std::string change = trial.batch_tokens != 0
                           ? fmt::format("set train.batch_tokens={}", trial.batch_tokens)
                           : fmt::format("set train.batch_size={}", trial.batch_size);
  if (trial.same_step) {
    change += fmt::format(" and train.accumulate={}: as many examples in a step", trial.accumulate);
  } else {
    change += ", with fewer steps and a learning rate for it: the result differs";
  }
  limits.push_back(
      {.what = fmt::format(
           "batches are small: with batches of twice the size {:.2f} times as many "
           "targets per second{}",
           trial.speedup,
           update > 0.2 ? fmt::format("; the update takes {} of a step", percent(update)) : ""),
       .change = std::move(change)});
}

void add_padding(const RunPlan& plan, std::vector<Limit>& limits) {
  constexpr double alarming = 0.15, worth_a_change = 0.05;
  const double share = plan.padding_share();
  if (share < alarming) return;
  Limit limit{.what = fmt::format("padding is {} of all positions", percent(share)), .change = ""};
  if (plan.equal_batch_tokens && plan.padding_by_tokens < share - worth_a_change) {
    limit.change = fmt::format("set train.batch_tokens={}, with which it is {}: the batches differ",
                               *plan.equal_batch_tokens, percent(plan.padding_by_tokens));
  }
  limits.push_back(std::move(limit));
}

void add_preparation(const RunPlan& plan, std::vector<Limit>& limits) {
  constexpr double alarming = 0.1;
  const double share = plan.preparation / std::max(plan.step.median, 1e-9);
  if (share < alarming) return;
  limits.push_back(
      {.what = fmt::format("steps wait for their batches for {} of their time", percent(share)),
       .change = "leave a core free for the thread that prepares them, with a lower "
                 "train.threads"});
}

void add_validation(const RunPlan& plan, const Config& config, std::vector<Limit>& limits) {
  constexpr double alarming = 0.2;
  const double share = plan.all_validations() / plan.total();
  if (share < alarming) return;
  const double of_decoding = plan.decoding / (plan.scoring + plan.decoding);
  Limit limit{
      .what = fmt::format("validation takes {} of the run", percent(share)),
      .change = fmt::format("raise train.validate_every ({})", config.train.validate_every)};
  if (of_decoding > 0.5) {
    limit.what += fmt::format(", {} of it for decoding", percent(of_decoding));
    limit.change += fmt::format(", or lower train.exact_match_sequences ({})",
                                config.train.exact_match_sequences);
    if (config.decoding.beam_size > 1) {
      limit.change += fmt::format(" or decoding.beam_size ({})", config.decoding.beam_size);
    }
  }
  limits.push_back(std::move(limit));
}

void add_saving(const RunPlan& plan, const Config& config, std::vector<Limit>& limits) {
  constexpr double alarming = 0.05;
  const double share = plan.all_saves() / plan.total();
  if (share < alarming) return;
  Limit limit{.what = fmt::format("saving takes {} of the run, without the time of the disk",
                                  percent(share)),
              .change = ""};
  if (config.train.save_every < config.train.steps) {
    limit.change = fmt::format("raise train.save_every ({})", config.train.save_every);
  }
  if (plan.saves.most > plan.saves.fewest) {
    limit.change += fmt::format(
        "{}raise train.validate_every ({}): a validation that is among the best is saved as well",
        limit.change.empty() ? "" : "; ", config.train.validate_every);
  }
  limits.push_back(std::move(limit));
}

}  // namespace

std::vector<Limit> find_limits(const RunPlan& plan, const Config& config) {
  std::vector<Limit> limits;
  add_shortages(plan, config, limits);
  add_other_programs(plan, limits);
  add_threads(plan, limits);
  add_batches(plan, limits);
  add_padding(plan, limits);
  add_preparation(plan, limits);
  add_validation(plan, config, limits);
  add_saving(plan, config, limits);
  return limits;
}

}  // namespace tapestry
