#include "train/run_plan.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <system_error>
#include <utility>

#include "autograd/gradient.h"
#include "autograd/kernels/parallel.h"
#include "autograd/tape.h"
#include "data/io/file_system.h"
#include "train/config/error.h"
#include "train/format.h"
#include "train/platform/machine.h"
#include "train/report/report_time.h"
#include "train/storage/checkpoint_file.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

double seconds_of(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

double seconds_since(Clock::time_point started) { return seconds_of(Clock::now() - started); }

/// The value below which this share of the values is, at least one of which there must be.
double percentile(std::vector<double> values, double share) {
  const auto index = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(index));
  return values[index];
}

double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

/// The median of the slopes of the lines through two samples, at least 0.
double slope_of(std::span<const StepSample> samples) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double distance = samples[i].positions - samples[j].positions;
      if (distance != 0.0) {
        slopes.push_back((samples[i].seconds - samples[j].seconds) / distance);
      }
    }
  }
  return slopes.empty() ? 0.0 : std::max(0.0, median(std::move(slopes)));
}

}  // namespace

StepDistribution time_of_mean_step(std::span<const StepSample> samples, double mean_positions) {
  const double slope = slope_of(samples);
  std::vector<double> distances;
  for (const StepSample& sample : samples) {
    distances.push_back(sample.seconds - slope * sample.positions);
  }
  const auto at = [&](double share) {
    return std::max(0.0, slope * mean_positions + percentile(distances, share));
  };
  return {.median = at(0.5), .low = at(0.1), .high = at(0.9), .steps = samples.size()};
}

// ---- Validations and saves.

namespace {

/// How many of the steps 1 to `steps` are multiples of `every`.
std::uint64_t count_multiples(std::uint64_t steps, std::uint64_t every) { return steps / every; }

/// How many of them are multiples of both.
std::uint64_t count_common(std::uint64_t steps, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t factor = a / std::gcd(a, b);
  return factor > steps / b ? 0 : steps / (factor * b);
}

}  // namespace

std::uint64_t count_validations(const TrainOptions& options, bool has_validation_set) {
  if (!has_validation_set) return 0;
  const bool last_is_due = options.steps % options.validate_every == 0;
  return count_multiples(options.steps, options.validate_every) + (last_is_due ? 0 : 1);
}

Occasions count_saves(const TrainOptions& options, bool has_validation_set) {
  const bool last_is_due = options.steps % options.save_every == 0;
  const std::uint64_t due = count_multiples(options.steps, options.save_every);
  Occasions saves{.fewest = due + (last_is_due ? 0 : 1), .most = 0};
  saves.most = saves.fewest;
  if (has_validation_set) {
    saves.most = due + count_validations(options, true) -
                 count_common(options.steps, options.save_every, options.validate_every);
    if (last_is_due && options.steps % options.validate_every != 0) --saves.most;
  }
  return saves;
}

// ---- Measurements.

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

std::uint64_t RunPlan::steps_per_epoch() const {
  return (epoch.batches + accumulate - 1) / accumulate;
}

double RunPlan::padding_share() const {
  if (!has_lengths || epoch.positions == 0) return 0.0;
  return static_cast<double>(epoch.padding) / static_cast<double>(epoch.positions);
}

namespace {

/// Keeps files in memory that has no path, apart from that of the process, and forgets them when
/// they are closed: what a save writes, without the disk.
class MemoryFiles : public FileSystem {
 public:
  int open(const char*, int, mode_t) override { return ::memfd_create("checkpoint", MFD_CLOEXEC); }
  int fallocate(int fd, std::uint64_t size) override {
    largest_ = std::max(largest_, size);
    return FileSystem::fallocate(fd, size);
  }
  int rename(const char*, const char*) override { return 0; }
  int unlink(const char*) override { return 0; }

  /// The size of the largest file.
  std::uint64_t largest() const { return largest_; }

 private:
  std::uint64_t largest_ = 0;
};

/// Measurements of one run.
class Measurement {
 public:
  Measurement(Trainer& trainer, const Corpus& corpus, const PlanOptions& options, RunPlan& plan)
      : trainer_(trainer),
        config_(trainer.config()),
        corpus_(corpus),
        options_(options),
        plan_(plan),
        task_(find_task(trainer.config())) {}

  void describe();
  void prepare_memory();
  void measure_steps();
  void measure_costs();
  void measure_validation();
  void measure_save();
  void measure_report();
  void measure_threads();
  void measure_larger_batch();
  void try_batches_by_tokens();

 private:
  using Step = std::vector<Batch>;

  std::vector<Step> sample_steps(const Config& config, std::size_t count) const;
  std::size_t sample_size(std::size_t settings) const;
  double time_of(const Step& step) { return seconds_of(trainer_.try_step(step).time); }
  StepCosts time_micro_batch(const Batch& batch) const;
  double time_scores(const std::vector<Example>& examples, std::size_t decoded) const;
  void measure_scoring();
  void measure_decoding();
  bool is_long(double seconds) const { return seconds > options_.seconds; }

  static constexpr std::size_t repetitions = 3;

  Trainer& trainer_;
  const Config& config_;
  const Corpus& corpus_;
  const PlanOptions& options_;
  RunPlan& plan_;
  const Task& task_;
};

void Measurement::describe() {
  plan_.run_dir = config_.train.run_dir;
  plan_.steps = config_.train.steps;
  plan_.model = summarize(shapes_of(trainer_.model().parameters));
  plan_.epoch = trainer_.measure_epoch();
  plan_.accumulate = config_.train.accumulate;
  plan_.has_lengths = !task_.reads_images();
  plan_.threads = kernels::num_threads();
  plan_.cores = read_cores().allowed;
  const bool validates = !corpus_.validation.empty();
  plan_.validations = count_validations(config_.train, validates);
  plan_.saves = count_saves(config_.train, validates);
  plan_.checkpoints = std::max(config_.train.keep_last, config_.train.average_last) +
                      (validates ? config_.train.keep_best : 0) + 1;
  plan_.checkpoints = std::min(plan_.checkpoints, plan_.saves.most);
}

/// Computes the largest step, as a run does at its start.
void Measurement::prepare_memory() {
  plan_.need = need_of_model(config_, corpus_);
  plan_.need.step = estimate_step(trainer_.model(), corpus_, config_);
  for (const Batch& batch : largest_batches(corpus_, config_)) {
    warm_up(trainer_.model(), batch, config_);
  }
}

/// Computes the first steps of the run. The very first one is left out: it allocates memory.
void Measurement::measure_steps() {
  constexpr std::size_t fewest = 3, most = 500;
  plan_.start = seconds_since(options_.started);
  const Clock::time_point started = Clock::now();
  std::vector<Trainer::StepTime> steps;
  do {
    steps.push_back(trainer_.try_step(true));
  } while (steps.size() < most &&
           (steps.size() < fewest || seconds_since(started) < options_.seconds));
  steps.erase(steps.begin());
  const auto median_of = [&](const std::function<double(const Trainer::StepTime&)>& value) {
    std::vector<double> values;
    for (const Trainer::StepTime& step : steps) values.push_back(value(step));
    return median(std::move(values));
  };
  const double batches =
      static_cast<double>(plan_.epoch.batches) / static_cast<double>(config_.train.accumulate);
  std::vector<StepSample> samples;
  for (const Trainer::StepTime& step : steps) {
    samples.push_back(
        {.seconds = seconds_of(step.time),
         .positions = static_cast<double>(plan_.has_lengths ? step.positions : step.targets)});
    plan_.targets += static_cast<double>(step.targets) / static_cast<double>(steps.size());
  }
  const auto all =
      static_cast<double>(plan_.has_lengths ? plan_.epoch.positions : plan_.epoch.examples);
  plan_.step = time_of_mean_step(samples, all / batches);
  plan_.preparation = median_of([](const auto& step) { return seconds_of(step.preparation); });
  plan_.gradients = median_of([](const auto& step) { return seconds_of(step.gradients); });
  plan_.update = median_of(
      [](const auto& step) { return seconds_of(step.time - step.preparation - step.gradients); });
}

double Measurement::time_scores(const std::vector<Example>& examples, std::size_t decoded) const {
  static const std::vector<std::string> no_texts;
  const TextCodec codec =
      make_codec(config_.data, corpus_.source_vocabulary, corpus_.target_vocabulary);
  const EvaluationSet set{.examples = examples, .target_texts = no_texts, .codec = codec};
  Config config = config_;
  if (config.train.max_decode_length == 0) {
    // Outputs of an untrained model do not end; those of a trained one are as long as references.
    std::size_t tokens = 0;
    for (const Example& example : examples) tokens += example.target.size() + 1;
    config.train.max_decode_length =
        std::max<std::size_t>(1, tokens / std::max<std::size_t>(1, examples.size()));
  }
  const Clock::time_point started = Clock::now();
  task_.evaluate(trainer_.model(), config, batch_rules(config_, corpus_.target_vocabulary.size()),
                 set, decoded);
  return seconds_since(started);
}

/// So many of the examples, spread evenly, the last one among them.
std::vector<Example> spread(const std::vector<Example>& examples, std::size_t count) {
  std::vector<Example> chosen;
  for (std::size_t i = 1; i <= count; ++i) {
    chosen.push_back(examples[i * examples.size() / count - 1]);
  }
  return chosen;
}

/// Scores a part of the validation set first, and the whole set if that does not take long.
void Measurement::measure_scoring() {
  const auto& all = corpus_.validation;
  const std::size_t part = std::min(all.size(), 4 * config_.train.batch_size);
  const double share = static_cast<double>(part) / static_cast<double>(all.size());
  plan_.scoring = time_scores(spread(all, part), 0) / share;
  if (part < all.size() && is_long(plan_.scoring)) {
    plan_.whole_validation = false;
  } else {
    plan_.scoring = time_scores(all, 0);
  }
}

/// The same for sequences that are decoded.
void Measurement::measure_decoding() {
  const std::size_t first_part = config_.train.batch_size;
  const auto decode = [&](std::size_t count) {
    const std::vector<Example> examples = spread(corpus_.validation, count);
    return std::max(0.0, time_scores(examples, count) - time_scores(examples, 0));
  };
  const std::size_t part = std::min(plan_.decoded, first_part);
  const double share = static_cast<double>(part) / static_cast<double>(plan_.decoded);
  plan_.decoding = decode(part) / share;
  if (part < plan_.decoded && is_long(plan_.decoding)) {
    plan_.whole_validation = false;
  } else {
    plan_.decoding = decode(plan_.decoded);
  }
}

void Measurement::measure_validation() {
  if (plan_.validations == 0) return;
  measure_scoring();
  const auto& keys = task_.kind().keys;
  const bool decodes = std::ranges::find(keys, "train.exact_match_sequences") != keys.end();
  if (decodes) {
    plan_.decoded = std::min(config_.train.exact_match_sequences, corpus_.validation.size());
  }
  if (plan_.decoded > 0) measure_decoding();
}

/// The closest folder that exists above a path.
std::filesystem::path existing_folder(std::filesystem::path path) {
  std::error_code error;
  path = std::filesystem::absolute(path, error);
  while (!std::filesystem::is_directory(path, error) && path.has_relative_path()) {
    path = path.parent_path();
  }
  return path;
}

void Measurement::measure_save() {
  const Clock::time_point started = Clock::now();
  MemoryFiles files;
  write_checkpoint("checkpoint.h5", trainer_.snapshot(), files);
  plan_.saving = seconds_since(started);
  plan_.checkpoint_bytes = files.largest();
  std::error_code error;
  const auto space = std::filesystem::space(existing_folder(plan_.run_dir), error);
  if (!error) plan_.free_disk = space.available;
}

void Measurement::measure_report() {
  plan_.reports = count_reports(config_.train);
  if (plan_.reports > 0) plan_.reporting = time_report(trainer_.snapshot(), corpus_);
}

// ---- The parts of a step, for several processes.

/// Forward and backward of a batch.
StepCosts Measurement::time_micro_batch(const Batch& batch) const {
  const Model& model = trainer_.model();
  std::map<const GradientSlot*, std::size_t> indices;
  for (NamedTensor parameter : model.parameters) {
    indices.emplace(parameter.tensor.slot().get(), indices.size());
    parameter.tensor.clear_gradient();
  }
  StepCosts costs{.complete = std::vector<double>(model.parameters.list().size(), 0.0)};
  const Clock::time_point started = Clock::now();
  Tape tape;
  const Loss loss = batch_loss(batch, {.target_tokens = batch.target_tokens}, config_.train, model);
  costs.forward = seconds_since(started);
  const Clock::time_point turned = Clock::now();
  tape.on_gradient_complete([&](const GradientSlot& leaf) {
    const auto found = indices.find(&leaf);
    if (found != indices.end()) costs.complete[found->second] = seconds_since(turned);
  });
  tape.backward(loss.mean);
  costs.backward = seconds_since(turned);
  return costs;
}

/// The time of adding so many values to others.
double time_sum(std::size_t values, DType dtype) {
  return dispatch(dtype, [&]<class T>() {
    std::vector<T> sum(values), terms(values);
    const Clock::time_point started = Clock::now();
    kernels::parallel_ranges(values, kernels::elements_per_piece,
                             [&](std::size_t begin, std::size_t end) {
                               for (std::size_t i = begin; i < end; ++i) sum[i] += terms[i];
                             });
    return seconds_since(started);
  });
}

/// The fastest of some repetitions of a batch shows when gradients are complete; the time of all is
/// that of the measured steps.
void Measurement::measure_costs() {
  const Batch batch = sample_steps(config_, 1).front().front();
  const auto total = [](const StepCosts& costs) { return costs.forward + costs.backward; };
  StepCosts costs = time_micro_batch(batch);
  for (std::size_t i = 1; i < repetitions; ++i) {
    StepCosts next = time_micro_batch(batch);
    if (total(next) < total(costs)) costs = std::move(next);
  }
  const double factor =
      plan_.gradients / static_cast<double>(config_.train.accumulate) / total(costs);
  costs.forward *= factor;
  costs.backward *= factor;
  for (double& time : costs.complete) time *= factor;
  const Parameters& parameters = trainer_.model().parameters;
  costs.add = time_sum(parameters.num_values(), parameters.dtype());
  costs.update = plan_.update;
  plan_.costs = std::move(costs);
}

// ---- Other settings.

/// The first steps of a run of this config.
std::vector<Measurement::Step> Measurement::sample_steps(const Config& config,
                                                         std::size_t count) const {
  const BatchRules rules = training_rules(config, corpus_);
  BatchSchedule schedule = make_batch_schedule(corpus_, config);
  BatchPosition position;
  std::vector<Step> steps(count);
  for (Step& step : steps) {
    for (std::size_t i = 0; i < config.train.accumulate; ++i) {
      step.push_back(make_batch(corpus_.training(), schedule.at(position), rules));
      position = schedule.after(position);
      position.epoch = 0;
    }
  }
  return steps;
}

/// How many steps can be repeated with so many settings.
std::size_t Measurement::sample_size(std::size_t settings) const {
  const double all = static_cast<double>(repetitions * settings) * plan_.step.median;
  const double fitting = static_cast<double>(settings) * options_.seconds / std::max(all, 1e-9);
  return static_cast<std::size_t>(std::clamp(fitting, 1.0, 20.0));
}

/// Repeats the same steps with each number of threads in turn, so that other programs disturb all
/// of them alike, and takes the fastest repetition of each step.
void Measurement::measure_threads() {
  const std::size_t set = plan_.threads;
  std::vector<std::size_t> counts = thread_counts(plan_.cores, set);
  std::erase_if(counts, [&](std::size_t count) {
    const double slower = static_cast<double>(set) / static_cast<double>(std::min(count, set));
    return is_long(plan_.step.median * slower);
  });
  if (counts.size() < 2) return;
  const std::vector<Step> steps = sample_steps(config_, sample_size(1));
  std::vector<std::vector<double>> fastest(
      counts.size(), std::vector<double>(steps.size(), std::numeric_limits<double>::infinity()));
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      kernels::set_num_threads(counts[i]);
      for (std::size_t s = 0; s < steps.size(); ++s) {
        fastest[i][s] = std::min(fastest[i][s], time_of(steps[s]));
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

/// Target tokens per second of steps, of the fastest repetition of each.
double speed(const std::vector<double>& seconds, const std::vector<std::vector<Batch>>& steps) {
  std::size_t targets = 0;
  for (const auto& step : steps) targets += count_target_tokens(step);
  return static_cast<double>(targets) / std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

/// Compares with batches of twice the size: with train.accumulate, of half as many batches.
void Measurement::measure_larger_batch() {
  if (is_long(2 * plan_.step.median) || plan_.need.step > read_available_memory().free) return;
  Config larger = config_;
  TrainOptions& train = larger.train;
  const bool merges = train.accumulate % 2 == 0;
  if (merges) train.accumulate /= 2;
  (train.batch_tokens != 0 ? train.batch_tokens : train.batch_size) *= 2;
  if (train.batch_tokens == 0 && train.batch_size > corpus_.training().size()) return;
  const std::size_t count = sample_size(3);
  const std::vector<Step> now = sample_steps(config_, count), then = sample_steps(larger, count);
  const std::vector<double> none(count, std::numeric_limits<double>::infinity());
  std::vector<double> now_seconds = none, then_seconds = none;
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t s = 0; s < count; ++s) {
      now_seconds[s] = std::min(now_seconds[s], time_of(now[s]));
      then_seconds[s] = std::min(then_seconds[s], time_of(then[s]));
    }
  }
  plan_.larger_batch = BatchTrial{.batch_size = train.batch_tokens != 0 ? 0 : train.batch_size,
                                  .batch_tokens = train.batch_tokens,
                                  .accumulate = train.accumulate,
                                  .speedup = speed(then_seconds, then) / speed(now_seconds, now),
                                  .same_step = merges};
}

/// The padding of batches of a number of tokens, if the config may have them.
void Measurement::try_batches_by_tokens() {
  if (!plan_.has_lengths || config_.train.batch_tokens != 0 || plan_.epoch.padding == 0) return;
  const RowLayout& layout = task_.layout();
  const Examples examples = corpus_.training();
  std::size_t longest = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    longest = std::max(longest, longest_side(examples.lengths(i), layout));
  }
  Config config = config_;
  config.train.batch_tokens =
      std::max<std::size_t>(longest, plan_.epoch.tokens / plan_.epoch.batches);
  try {
    parse_config(dump_config(config), "the config");
  } catch (const ConfigError&) {  // such as batch norm, which needs sentences of mixed lengths
    return;
  }
  BatchSchedule schedule = make_batch_schedule(corpus_, config);
  const BatchStatistics epoch = measure_batches(schedule.epoch(0), examples, layout);
  plan_.equal_batch_tokens = config.train.batch_tokens;
  plan_.padding_by_tokens =
      static_cast<double>(epoch.padding) / static_cast<double>(epoch.positions);
}

/// The cores that other programs used between two measurements.
double busy_cores(const std::optional<ProcessorTime>& before,
                  const std::optional<ProcessorTime>& after) {
  if (!before || !after || after->now <= before->now) return 0.0;
  const double others = (after->all - after->own) - (before->all - before->own);
  return std::max(0.0, others / (after->now - before->now));
}

}  // namespace

RunPlan plan_run(Trainer& trainer, const Corpus& corpus, const PlanOptions& options) {
  RunPlan plan;
  plan.available = read_available_memory();
  const auto before = read_processor_time();
  Measurement measurement(trainer, corpus, options, plan);
  measurement.describe();
  measurement.prepare_memory();
  measurement.measure_steps();
  if (options.costs) measurement.measure_costs();
  measurement.measure_validation();
  measurement.measure_save();
  measurement.measure_report();
  plan.peak_memory = read_peak_resident_bytes();  // before what a run does not do
  measurement.measure_threads();
  measurement.measure_larger_batch();
  measurement.try_batches_by_tokens();
  plan.busy_cores = busy_cores(before, read_processor_time());
  return plan;
}

}  // namespace tapestry
