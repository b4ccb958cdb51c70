#include "train/plan/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "data/examples.h"
#include "data/io/utf8.h"
#include "train/base/format.h"
#include "train/loop/run_description.h"
#include "train/loop/step.h"
#include "train/loop/validator.h"
#include "train/models/model_summary.h"
#include "train/parallel/gradient_exchange.h"
#include "train/system/machine.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

double to_seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

double seconds_since(Clock::time_point started) { return to_seconds(Clock::now() - started); }

/// The value below which a fraction of the values is; at least one value.
double percentile(std::vector<double> values, double fraction) {
  const auto index =
      static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1) + 0.5);
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(index));
  return values[index];
}

void describe(StepComputer& computer, const PlanOptions& options, RunPlan& plan) {
  const Config& config = computer.config();
  const TrainOptions& train = config.train;
  const Task& task = find_task(config);
  const bool validates = !computer.corpus().validation.empty();
  plan.description = describe_run(computer, train.run_dir, options.processes);
  plan.config = config;
  plan.model = summarize(parameter_shapes(computer.model().parameters));
  plan.epoch = computer.measure_epoch();
  plan.has_lengths = !task.traits().reads_images;
  plan.target_noun = task.words(config).targets;
  plan.threads = kernels::num_threads();
  plan.cores = read_cores().allowed;
  if (validates) plan.validations = (train.steps - 1) / train.validate_every + 1;
  plan.checkpoints =
      std::max(train.keep_last, train.average_last) + (validates ? train.keep_best : 0) + 1;
}

/// Computes the largest step, as a run does at its start.
void prepare_memory(StepComputer& computer, RunPlan& plan) {
  const Config& config = computer.config();
  plan.need = need_of_model(config, computer.corpus());
  plan.need.step = estimate_step(computer.model(), computer.corpus(), config);
  const std::vector<Batch> largest = largest_batches(computer.corpus(), config);
  plan.largest_step = find_task(config).describe_size(largest.front());
  for (const Batch& batch : largest) warm_up(computer.model(), batch, config);
}

/// Computes the first steps of the run. The very first one is left out: it allocates memory.
void measure_steps(StepComputer& computer, const PlanOptions& options, RunPlan& plan) {
  constexpr std::size_t min_steps = 3, max_steps = 500;
  plan.start = seconds_since(options.started);
  const Clock::time_point started = Clock::now();
  std::vector<StepTime> steps;
  do {
    steps.push_back(time_step(computer, true));
  } while (steps.size() < max_steps &&
           (steps.size() < min_steps || seconds_since(started) < options.seconds));
  steps.erase(steps.begin());
  const auto at = [&](double fraction, const std::function<double(const StepTime&)>& value) {
    std::vector<double> values;
    for (const StepTime& step : steps) values.push_back(value(step));
    return percentile(std::move(values), fraction);
  };
  const auto all =
      static_cast<double>(plan.has_lengths ? plan.epoch.positions : plan.epoch.examples);
  const double mean_size = all * static_cast<double>(plan.config.train.accumulate) /
                           static_cast<double>(plan.epoch.batches);
  const auto of_mean_size = [&](const StepTime& step) {
    const auto size = static_cast<double>(plan.has_lengths ? step.positions : step.targets);
    return to_seconds(step.time) * mean_size / size;
  };
  plan.step = {.median = at(0.5, of_mean_size),
               .low = at(0.1, of_mean_size),
               .high = at(0.9, of_mean_size),
               .steps = steps.size()};
  plan.preparation = at(0.5, [](const auto& step) { return to_seconds(step.preparation); });
  plan.gradients = at(0.5, [](const auto& step) { return to_seconds(step.gradients); });
  plan.update = at(0.5, [](const auto& step) {
    return to_seconds(step.time - step.preparation - step.gradients);
  });
  for (const StepTime& step : steps) {
    plan.targets += static_cast<double>(step.targets) / static_cast<double>(steps.size());
  }
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
    // Outputs of an untrained model do not end; a trained one's are as long as references.
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

void measure_validation(StepComputer& computer, RunPlan& plan) {
  if (plan.validations == 0) return;
  const Config& config = computer.config();
  const std::size_t all = computer.corpus().validation.size();
  const std::size_t scored = std::min(all, 4 * config.train.batch_size);
  const std::size_t with_training_sample = all + training_sample_size(config, computer.corpus());
  plan.scoring = time_scores(computer, scored, 0) * static_cast<double>(with_training_sample) /
                 static_cast<double>(scored);
  const auto& keys = find_task(config).kind().keys;
  if (std::ranges::find(keys, "train.exact_match_sequences") == keys.end()) return;
  plan.decoded = std::min(config.train.exact_match_sequences, all);
  const std::size_t part = std::min(plan.decoded, config.train.batch_size);
  if (part == 0) return;
  const double both = time_scores(computer, part, part), scoring = time_scores(computer, part, 0);
  plan.decoding =
      std::max(0.0, both - scoring) * static_cast<double>(plan.decoded) / static_cast<double>(part);
}

void measure_checkpoints(StepComputer& computer, RunPlan& plan) {
  plan.checkpoint_bytes = computer.snapshot().byte_size();
  std::error_code error;
  auto folder = std::filesystem::current_path() / plan.config.train.run_dir;
  while (!std::filesystem::exists(folder, error)) folder = folder.parent_path();  // "/" exists
  const auto space = std::filesystem::space(folder, error);
  if (!error) plan.free_disk = space.available;
}

void divide_among_processes(StepComputer& computer, std::size_t processes, RunPlan& plan) {
  if (processes == 1) return;
  const TrainOptions& train = plan.config.train;
  const Parameters& parameters = computer.model().parameters;
  const std::size_t bytes = bytes_per_element(parameters.dtype());
  const std::size_t gradient_bytes = exchange_options(train).bfloat16 ? 2 : bytes;
  const std::uint64_t values = parameters.num_values() / processes * (processes - 1);
  StepDivision division;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    const MicroBatches own = micro_batch_range(rank, processes, train.accumulate);
    division.micro_batches.push_back(own.size());
    const std::size_t sent = nodes_in(own).size() * gradient_bytes + bytes;  // for each value
    division.sent = std::max<std::uint64_t>(division.sent, values * sent);
  }
  const auto busiest = static_cast<double>(std::ranges::max(division.micro_batches));
  division.compute = busiest * plan.gradients / static_cast<double>(train.accumulate) +
                     plan.update / static_cast<double>(processes);
  MemoryNeed need = need_of_model(plan.config, computer.corpus(), processes);
  need.step = plan.need.step;
  division.memory = need.of_process();
  plan.division = std::move(division);
}

/// Repeats a step with 1, 2, 4 ... threads, all cores and the number in the config. The numbers
/// take turns, so that other programs disturb all of them alike.
void measure_threads(StepComputer& computer, const PlanOptions& options, RunPlan& plan) {
  std::set<std::size_t> counts{plan.threads, plan.cores};
  for (std::size_t count = 1; count < plan.cores; count *= 2) counts.insert(count);
  std::erase_if(counts, [&](std::size_t count) {
    const double slower = static_cast<double>(plan.threads) / static_cast<double>(count);
    return plan.step.median * std::max(slower, 1.0) > options.seconds;
  });
  if (counts.size() < 2) return;
  const std::vector<Batch> batches = computer.next_step(false).batches;
  for (const std::size_t count : counts) {
    plan.thread_times.push_back(
        {.threads = count, .seconds = std::numeric_limits<double>::infinity()});
  }
  const double fitting = std::clamp(options.seconds / plan.step.median, 3.0, 60.0);
  for (auto repetitions = static_cast<int>(fitting); repetitions > 0; --repetitions) {
    for (ThreadTime& time : plan.thread_times) {
      kernels::set_num_threads(time.threads);
      time.seconds = std::min(time.seconds, to_seconds(time_step(computer, batches).time));
    }
  }
  kernels::set_num_threads(plan.threads);
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

void add_shortages(const RunPlan& plan, std::vector<Limit>& limits) {
  if (const auto warning = warning_about_memory(plan.need, plan.available, plan.config)) {
    const std::string text = warning->substr(std::string("warning: ").size());
    const std::size_t end = text.rfind("; ");
    limits.push_back({.what = text.substr(0, end), .change = text.substr(end + 2)});
  }
  const std::uint64_t disk = plan.checkpoints * plan.checkpoint_bytes;
  if (plan.free_disk && *plan.free_disk < disk) {
    limits.push_back(
        {.what = fmt::format("checkpoints take up to {}, and the disk has {} of free space",
                             format_bytes(disk), format_bytes(*plan.free_disk)),
         .change = "free space, set train.run_dir to another disk, or lower train.keep_last"});
  }
  const auto max_time = static_cast<double>(plan.config.train.max_time.count());
  if (max_time > 0.0 && plan.total() > max_time) {
    limits.push_back({.what = fmt::format("train.max_time stops the run after {}, before its end",
                                          duration_in_words(max_time)),
                      .change = "resume the run, or raise train.max_time"});
  }
}

void add_threads(const RunPlan& plan, std::vector<Limit>& limits) {
  constexpr double min_gain = 1.05;
  const auto set = std::ranges::find(plan.thread_times, plan.threads, &ThreadTime::threads);
  if (set == plan.thread_times.end()) return;
  const ThreadTime best = *std::ranges::min_element(plan.thread_times, {}, &ThreadTime::seconds);
  const double gain = set->seconds / best.seconds;
  if (gain < min_gain) return;
  limits.push_back(
      {.what = fmt::format("too {} threads: {} are {:.2f} times as fast as {}",
                           best.threads < plan.threads ? "many" : "few", best.threads, gain,
                           plan.threads),
       .change = fmt::format("set train.threads={}, which changes no result", best.threads)});
}

void add_costs(const RunPlan& plan, std::vector<Limit>& limits) {
  constexpr double max_padding = 0.15, max_waiting = 0.1, max_validation = 0.2;
  if (plan.padding_share() >= max_padding) {
    limits.push_back(
        {.what = fmt::format("padding is {} of all positions", percent(plan.padding_share())),
         .change = ""});
  }
  const double waiting = plan.preparation / std::max(plan.step.median, 1e-9);
  if (waiting >= max_waiting) {
    limits.push_back(
        {.what = fmt::format("steps wait for their batches for {} of their time", percent(waiting)),
         .change = ""});
  }
  const double validation = plan.all_validations() / plan.total();
  if (validation < max_validation) return;
  const double decoding = plan.decoding / (plan.scoring + plan.decoding);
  Limit limit{
      .what = fmt::format("validation takes {} of the run, {} of it for decoding",
                          percent(validation), percent(decoding)),
      .change = fmt::format("raise train.validate_every ({})", plan.config.train.validate_every)};
  if (decoding > 0.5) {
    limit.change += fmt::format(", or lower train.exact_match_sequences ({})",
                                plan.config.train.exact_match_sequences);
  }
  limits.push_back(std::move(limit));
}

}  // namespace

std::uint64_t RunPlan::steps_per_epoch() const {
  return (epoch.batches + config.train.accumulate - 1) / config.train.accumulate;
}

double RunPlan::padding_share() const {
  if (!has_lengths || epoch.positions == 0) return 0.0;
  return static_cast<double>(epoch.padding) / static_cast<double>(epoch.positions);
}

std::vector<Limit> find_limits(const RunPlan& plan) {
  std::vector<Limit> limits;
  add_shortages(plan, limits);
  add_threads(plan, limits);
  add_costs(plan, limits);
  return limits;
}

RunPlan plan_run(StepComputer& computer, const PlanOptions& options) {
  RunPlan plan;
  plan.available = read_available_memory();
  describe(computer, options, plan);
  prepare_memory(computer, plan);
  measure_steps(computer, options, plan);
  measure_validation(computer, plan);
  measure_checkpoints(computer, plan);
  divide_among_processes(computer, options.processes, plan);
  plan.peak_memory = read_peak_resident_bytes();  // before what a run does not do
  measure_threads(computer, options, plan);
  plan.limits = find_limits(plan);
  return plan;
}

// ---- Output.

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
      "  memory of a process: {} in addition to the data, and {} more in rank 0 while it saves or "
      "averages "
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
  if (plan.limits.empty()) return "limits: none found; the time goes into computing\n";
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
