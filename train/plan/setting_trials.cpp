#include "train/plan/setting_trials.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "autograd/kernels/parallel.h"
#include "data/batch_schedule.h"
#include "train/config/error.h"
#include "train/platform/memory.h"
#include "train/step.h"
#include "train/step_time.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// Target tokens per second of steps, of the fastest repetition of each.
double speed(const std::vector<double>& seconds, const std::vector<std::vector<Batch>>& steps) {
  std::size_t targets = 0;
  for (const auto& step : steps) targets += count_target_tokens(step);
  return static_cast<double>(targets) / std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

}  // namespace

std::vector<std::size_t> thread_counts(std::size_t cores, std::size_t threads) {
  constexpr std::size_t each_up_to = 8;
  std::vector<std::size_t> counts{threads, std::max<std::size_t>(cores, 1)};
  for (std::size_t count = 1; count < cores; count = cores <= each_up_to ? count + 1 : 2 * count) {
    counts.push_back(count);
  }
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

/// The first steps of a run of this config.
std::vector<SettingTrials::Step> SettingTrials::sample_steps(const Config& config,
                                                             std::size_t count) const {
  const BatchRules rules = training_rules(config, corpus());
  BatchSchedule schedule = make_batch_schedule(corpus(), config);
  BatchPosition position;
  std::vector<Step> steps(count);
  for (Step& step : steps) {
    for (std::size_t i = 0; i < config.train.accumulate; ++i) {
      step.push_back(make_batch(corpus().training(), schedule.at(position), rules));
      position = schedule.after(position);
      position.epoch = 0;
    }
  }
  return steps;
}

double SettingTrials::measure_seconds(const Step& step) {
  return std::chrono::duration<double>(time_step(computer_, step).time).count();
}

/// How many steps can be repeated with so many settings.
std::size_t SettingTrials::sample_size(std::size_t settings) const {
  const double all = static_cast<double>(repetitions * settings) * plan_.step.median;
  const double fitting = static_cast<double>(settings) * options_.seconds / std::max(all, 1e-9);
  return static_cast<std::size_t>(std::clamp(fitting, 1.0, 20.0));
}

/// Repeats the same steps with each number of threads in turn, so that other programs disturb all
/// of them alike, and takes the fastest repetition of each step.
void SettingTrials::measure_threads() {
  const std::size_t set = plan_.threads;
  std::vector<std::size_t> counts = thread_counts(plan_.cores, set);
  std::erase_if(counts, [&](std::size_t count) {
    const double slower = static_cast<double>(set) / static_cast<double>(std::min(count, set));
    return is_long(plan_.step.median * slower);
  });
  if (counts.size() < 2) return;
  const std::vector<Step> steps = sample_steps(config(), sample_size(1));
  std::vector<std::vector<double>> fastest(
      counts.size(), std::vector<double>(steps.size(), std::numeric_limits<double>::infinity()));
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      kernels::set_num_threads(counts[i]);
      for (std::size_t s = 0; s < steps.size(); ++s) {
        fastest[i][s] = std::min(fastest[i][s], measure_seconds(steps[s]));
      }
    }
  }
  kernels::set_num_threads(set);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double sum = std::accumulate(fastest[i].begin(), fastest[i].end(), 0.0);
    plan_.thread_times.push_back(
        {.threads = counts[i], .seconds = sum / static_cast<double>(steps.size())});
  }
}

/// Compares with batches of twice the size: with train.accumulate, of half as many batches.
void SettingTrials::measure_larger_batch() {
  if (is_long(2 * plan_.step.median) || plan_.need.step > read_available_memory().free) return;
  Config larger = config();
  TrainOptions& train = larger.train;
  const bool merges = train.accumulate % 2 == 0;
  if (merges) train.accumulate /= 2;
  (train.batch_tokens != 0 ? train.batch_tokens : train.batch_size) *= 2;
  if (train.batch_tokens == 0 && train.batch_size > corpus().training().size()) return;
  const std::size_t count = sample_size(3);
  const std::vector<Step> now = sample_steps(config(), count), then = sample_steps(larger, count);
  const std::vector<double> none(count, std::numeric_limits<double>::infinity());
  std::vector<double> now_seconds = none, then_seconds = none;
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t s = 0; s < count; ++s) {
      now_seconds[s] = std::min(now_seconds[s], measure_seconds(now[s]));
      then_seconds[s] = std::min(then_seconds[s], measure_seconds(then[s]));
    }
  }
  plan_.larger_batch = BatchTrial{.batch_size = train.batch_tokens != 0 ? 0 : train.batch_size,
                                  .batch_tokens = train.batch_tokens,
                                  .accumulate = train.accumulate,
                                  .speedup = speed(then_seconds, then) / speed(now_seconds, now),
                                  .same_step = merges};
}

/// The padding of batches of a number of tokens, if the config may have them.
void SettingTrials::try_batches_by_tokens() {
  if (!plan_.has_lengths || config().train.batch_tokens != 0 || plan_.epoch.padding == 0) return;
  const RowLayout& layout = task().layout();
  const Examples examples = corpus().training();
  std::size_t longest = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    longest = std::max(longest, longest_side(examples.lengths(i), layout));
  }
  Config by_tokens = config();
  by_tokens.train.batch_tokens =
      std::max<std::size_t>(longest, plan_.epoch.tokens / plan_.epoch.batches);
  try {
    parse_config(dump_config(by_tokens), "the config");
  } catch (const ConfigError&) {  // such as batch norm, which needs sentences of mixed lengths
    return;
  }
  BatchSchedule schedule = make_batch_schedule(corpus(), by_tokens);
  const BatchStatistics epoch = schedule.measure(0, examples, layout);
  plan_.equal_batch_tokens = by_tokens.train.batch_tokens;
  plan_.padding_by_tokens =
      static_cast<double>(epoch.padding) / static_cast<double>(epoch.positions);
}

}  // namespace tapestry
