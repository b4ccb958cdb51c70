// SPDX-License-Identifier: BSD-3-Clause
#include "train/plan/run_plan.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "data/examples.h"
#include "data/io/memory.h"
#include "train/loop/run_description.h"
#include "train/loop/step_time.h"
#include "train/loop/validator.h"
#include "train/models/model_summary.h"
#include "train/parallel/gradient_tree.h"
#include "train/system/cores.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

double to_seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

double seconds_since(Clock::time_point started) { return to_seconds(Clock::now() - started); }

/// The `fraction` quantile (nearest rank) of a non-empty list.
double percentile(std::vector<double> values, double fraction) {
  const auto index =
      static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1) + 0.5);
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(index));
  return values[index];
}

/// Estimates the memory and computes the largest step, which a run does at its start.
PlannedMemory estimate_memory(StepComputer& computer) {
  const Config& config = computer.config();
  PlannedMemory memory{.need = need_of_model(config, computer.corpus()),
                       .largest_step = {},
                       .available = read_available_memory()};
  memory.need.step = estimate_step(computer.model(), computer.corpus(), config);
  const std::vector<Batch> largest = largest_batches(computer.corpus(), config);
  memory.largest_step = find_task(config).describe_size(largest.front());
  for (const Batch& batch : largest) warm_up(computer.model(), batch, config);
  return memory;
}

/// Computes the first steps of the run, for about `seconds`. Omits the time of the very first step,
/// which allocates memory.
std::vector<StepTime> time_steps(StepComputer& computer, double seconds) {
  constexpr std::size_t min_steps = 3, max_steps = 500;
  const Clock::time_point started = Clock::now();
  std::vector<StepTime> steps;
  do {
    steps.push_back(time_step(computer, true));
  } while (steps.size() < max_steps &&
           (steps.size() < min_steps || seconds_since(started) < seconds));
  steps.erase(steps.begin());
  return steps;
}

/// The mean number of positions per step, or of examples per step if examples have no lengths.
double mean_step_size(const RunPlan& plan) {
  const auto all = plan.has_lengths ? plan.epoch.positions : plan.epoch.examples;
  return static_cast<double>(all) * static_cast<double>(plan.config.train.accumulate) /
         static_cast<double>(plan.epoch.batches);
}

PlannedStep summarize_steps(const std::vector<StepTime>& steps, double mean_size,
                            bool has_lengths) {
  const auto at = [&](double fraction, const std::function<double(const StepTime&)>& value) {
    std::vector<double> values;
    for (const StepTime& step : steps) values.push_back(value(step));
    return percentile(std::move(values), fraction);
  };
  const auto of_mean_size = [&](const StepTime& step) {
    const auto size = static_cast<double>(has_lengths ? step.positions : step.targets);
    return to_seconds(step.time) * mean_size / size;
  };
  const auto update = [](const StepTime& step) {
    return to_seconds(step.time - step.preparation - step.gradients);
  };
  PlannedStep planned{
      .median = at(0.5, of_mean_size),
      .low = at(0.1, of_mean_size),
      .high = at(0.9, of_mean_size),
      .preparation = at(0.5, [](const StepTime& step) { return to_seconds(step.preparation); }),
      .gradients = at(0.5, [](const StepTime& step) { return to_seconds(step.gradients); }),
      .update = at(0.5, update),
      .measured = steps.size()};
  for (const StepTime& step : steps) {
    planned.targets += static_cast<double>(step.targets) / static_cast<double>(steps.size());
  }
  return planned;
}

/// Scores `count` evenly spaced validation examples, and decodes `decoded` of them.
double time_scores(StepComputer& computer, std::size_t count, std::size_t decoded) {
  static const std::vector<std::string> no_texts;
  const Corpus& corpus = computer.corpus();
  Config config = computer.config();
  std::vector<Example> examples;
  std::size_t tokens = 0;
  for (const std::size_t i : evenly_spaced(corpus.validation.size(), count)) {
    examples.push_back(corpus.validation[i]);
    tokens += examples.back().target.size() + 1;
  }
  if (config.train.max_decode_length == 0) {
    // An untrained model does not end its outputs. Limits them to the length of the references,
    // which is the usual length of a trained model's outputs.
    config.train.max_decode_length = tokens / examples.size();
  }
  const TextCodec codec =
      make_codec(config.data, corpus.source_vocabulary, corpus.target_vocabulary);
  const EvaluationSet set{.examples = examples, .target_texts = no_texts, .codec = codec};
  const Clock::time_point started = Clock::now();
  find_task(config).evaluate(computer.model(), config,
                             batch_rules(config, corpus.target_vocabulary.size()), set, decoded);
  return seconds_since(started);
}

PlannedValidations measure_validations(StepComputer& computer) {
  const Config& config = computer.config();
  const std::size_t all = computer.corpus().validation.size();
  if (all == 0) return {};
  const std::size_t scored = std::min(all, 4 * config.train.batch_size);
  const std::size_t with_training_sample = all + training_sample_size(config, computer.corpus());
  PlannedValidations planned{.count = (config.train.steps - 1) / config.train.validate_every + 1,
                             .scoring = time_scores(computer, scored, 0) *
                                        static_cast<double>(with_training_sample) /
                                        static_cast<double>(scored)};
  const auto& keys = find_task(config).kind().keys;
  if (std::ranges::find(keys, "train.exact_match_sequences") == keys.end()) return planned;
  planned.decoded = std::min(config.train.exact_match_sequences, all);
  const std::size_t part = std::min(planned.decoded, config.train.batch_size);
  if (part == 0) return planned;
  const double both = time_scores(computer, part, part), scoring = time_scores(computer, part, 0);
  planned.decoding = std::max(0.0, both - scoring) * static_cast<double>(planned.decoded) /
                     static_cast<double>(part);
  return planned;
}

PlannedCheckpoints measure_checkpoints(StepComputer& computer) {
  const TrainOptions& train = computer.config().train;
  const bool validates = !computer.corpus().validation.empty();
  PlannedCheckpoints planned{.bytes = computer.snapshot().byte_size(),
                             .files = std::max(train.keep_last, train.average_last) +
                                      (validates ? train.keep_best : 0) + 1,
                             .free_disk = std::nullopt};
  std::error_code error;
  auto folder = std::filesystem::current_path() / train.run_dir;
  // The loop ends because the root of an absolute path exists.
  while (!std::filesystem::exists(folder, error)) folder = folder.parent_path();
  const auto space = std::filesystem::space(folder, error);
  if (!error) planned.free_disk = space.available;
  return planned;
}

/// Divides a step among several processes.
///
/// step_memory  MemoryNeed::step
StepDivision divide_step(StepComputer& computer, const PlannedStep& step, std::uint64_t step_memory,
                         std::size_t processes) {
  const TrainOptions& train = computer.config().train;
  const Parameters& parameters = computer.model().parameters;
  const std::size_t bytes = bytes_per_element(parameters.dtype());
  const std::size_t gradient_bytes = exchange_options(train).bfloat16 ? 2 : bytes;
  const std::uint64_t values = parameters.num_values() / processes * (processes - 1);
  StepDivision division;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    const MicroBatches own = micro_batch_range(rank, processes, train.accumulate);
    division.micro_batches.push_back(own.size());
    const std::size_t sent = nodes_in(own).size() * gradient_bytes + bytes;  // bytes sent per value
    division.sent = std::max<std::uint64_t>(division.sent, values * sent);
  }
  const auto busiest = static_cast<double>(std::ranges::max(division.micro_batches));
  division.compute = busiest * step.gradients / static_cast<double>(train.accumulate) +
                     step.update / static_cast<double>(processes);
  MemoryNeed need = need_of_model(computer.config(), computer.corpus(), processes);
  need.step = step_memory;
  division.memory = need.per_process();
  return division;
}

/// Repeats a step with 1, 2, 4 ... threads, with all cores and with the number of threads in the
/// config, for about `seconds` each. Interleaves the repetitions, so that load from other programs
/// affects all thread counts equally.
///
/// step  time of a step with the number of threads in the config
PlannedThreads measure_threads(StepComputer& computer, double step, double seconds) {
  PlannedThreads planned{.set = kernels::num_threads(), .cores = read_cores().allowed, .times = {}};
  std::set<std::size_t> counts{planned.set, planned.cores};
  for (std::size_t count = 1; count < planned.cores; count *= 2) counts.insert(count);
  std::erase_if(counts, [&](std::size_t count) {
    const double slower = static_cast<double>(planned.set) / static_cast<double>(count);
    return step * std::max(slower, 1.0) > seconds;
  });
  if (counts.size() < 2) return planned;
  const std::vector<Batch> batches = computer.next_step(false).batches;
  for (const std::size_t count : counts) {
    planned.times.push_back({.threads = count, .seconds = std::numeric_limits<double>::infinity()});
  }
  const double fitting = std::clamp(seconds / step, 3.0, 60.0);
  for (auto repetitions = static_cast<int>(fitting); repetitions > 0; --repetitions) {
    for (ThreadTime& time : planned.times) {
      kernels::set_num_threads(time.threads);
      time.seconds = std::min(time.seconds, to_seconds(time_step(computer, batches).time));
    }
  }
  kernels::set_num_threads(planned.set);
  return planned;
}

}  // namespace

std::uint64_t RunPlan::steps_per_epoch() const {
  return (epoch.batches + config.train.accumulate - 1) / config.train.accumulate;
}

double RunPlan::padding_share() const {
  if (!has_lengths || epoch.positions == 0) return 0.0;
  return static_cast<double>(epoch.padding) / static_cast<double>(epoch.positions);
}

RunPlan plan_run(StepComputer& computer, const PlanOptions& options) {
  const Task& task = find_task(computer.config());
  RunPlan plan;
  plan.config = computer.config();
  plan.description = describe_run(computer, plan.config.train.run_dir, options.processes);
  plan.model = summarize(parameter_shapes(computer.model().parameters));
  plan.target_noun = task.words(plan.config).targets;
  plan.epoch = computer.measure_epoch();
  plan.has_lengths = !task.traits().reads_images;
  plan.memory = estimate_memory(computer);
  plan.startup = seconds_since(options.started);
  plan.step = summarize_steps(time_steps(computer, options.seconds), mean_step_size(plan),
                              plan.has_lengths);
  plan.validations = measure_validations(computer);
  plan.checkpoints = measure_checkpoints(computer);
  if (options.processes > 1) {
    plan.division = divide_step(computer, plan.step, plan.memory.need.step, options.processes);
  }
  plan.memory.peak = read_peak_resident_bytes();  // before measurements that a run does not make
  plan.threads = measure_threads(computer, plan.step.median, options.seconds);
  plan.limits = find_limits(plan);
  return plan;
}

}  // namespace tapestry
