#include "train/plan/run_measurement.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "autograd/gradient.h"
#include "autograd/kernels/parallel.h"
#include "autograd/tape.h"
#include "data/io/file_system.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/memory_need.h"
#include "train/model_summary.h"
#include "train/plan/step_distribution.h"
#include "train/platform/machine.h"
#include "train/report/report_time.h"
#include "train/step.h"
#include "train/step_time.h"
#include "train/tasks/task_data.h"
#include "train/validator.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

double to_seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

double seconds_since(Clock::time_point started) { return to_seconds(Clock::now() - started); }

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

/// So many of the examples, spread evenly, the last one among them.
std::vector<Example> spread(const std::vector<Example>& examples, std::size_t count) {
  std::vector<Example> chosen;
  for (std::size_t i = 1; i <= count; ++i) {
    chosen.push_back(examples[i * examples.size() / count - 1]);
  }
  return chosen;
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

/// Forward and backward of a batch.
StepCosts time_micro_batch(const Batch& batch, const TrainOptions& options, const Model& model) {
  std::map<const GradientSlot*, std::size_t> indices;
  for (NamedTensor parameter : model.parameters) {
    indices.emplace(parameter.tensor.slot().get(), indices.size());
    parameter.tensor.clear_gradient();
  }
  StepCosts costs{.complete = std::vector<double>(model.parameters.list().size(), 0.0)};
  const Clock::time_point started = Clock::now();
  Tape tape;
  const Loss loss = batch_loss(batch, {.target_tokens = batch.target_tokens}, options, model);
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

}  // namespace

void RunMeasurement::describe() {
  plan_.run_dir = config().train.run_dir;
  plan_.steps = config().train.steps;
  plan_.model = summarize(parameter_shapes(computer_.model().parameters));
  plan_.epoch = computer_.measure_epoch();
  plan_.accumulate = config().train.accumulate;
  plan_.has_lengths = !task().traits().reads_images;
  plan_.threads = kernels::num_threads();
  plan_.cores = read_cores().allowed;
  const bool validates = !corpus().validation.empty();
  plan_.validations = count_validations(config().train, validates);
  plan_.saves = count_saves(config().train, validates);
  plan_.checkpoints = std::max(config().train.keep_last, config().train.average_last) +
                      (validates ? config().train.keep_best : 0) + 1;
  plan_.checkpoints = std::min(plan_.checkpoints, plan_.saves.most);
}

void RunMeasurement::prepare_memory() {
  plan_.need = need_of_model(config(), corpus());
  plan_.need.step = estimate_step(computer_.model(), corpus(), config());
  for (const Batch& batch : largest_batches(corpus(), config())) {
    warm_up(computer_.model(), batch, config());
  }
}

void RunMeasurement::measure_steps() {
  constexpr std::size_t fewest = 3, most = 500;
  plan_.start = seconds_since(options_.started);
  const Clock::time_point started = Clock::now();
  std::vector<StepTime> steps;
  do {
    steps.push_back(time_step(computer_, true));
  } while (steps.size() < most &&
           (steps.size() < fewest || seconds_since(started) < options_.seconds));
  steps.erase(steps.begin());
  const auto median_seconds = [&](const std::function<double(const StepTime&)>& value) {
    std::vector<double> values;
    for (const StepTime& step : steps) values.push_back(value(step));
    return median(std::move(values));
  };
  const double batches =
      static_cast<double>(plan_.epoch.batches) / static_cast<double>(config().train.accumulate);
  std::vector<StepSample> samples;
  for (const StepTime& step : steps) {
    samples.push_back(
        {.seconds = to_seconds(step.time),
         .positions = static_cast<double>(plan_.has_lengths ? step.positions : step.targets)});
    plan_.targets += static_cast<double>(step.targets) / static_cast<double>(steps.size());
  }
  const auto all =
      static_cast<double>(plan_.has_lengths ? plan_.epoch.positions : plan_.epoch.examples);
  plan_.step = time_of_mean_step(samples, all / batches);
  plan_.preparation = median_seconds([](const auto& step) { return to_seconds(step.preparation); });
  plan_.gradients = median_seconds([](const auto& step) { return to_seconds(step.gradients); });
  plan_.update = median_seconds(
      [](const auto& step) { return to_seconds(step.time - step.preparation - step.gradients); });
}

double RunMeasurement::time_scores(const std::vector<Example>& examples,
                                   std::size_t decoded) const {
  static const std::vector<std::string> no_texts;
  const TextCodec codec =
      make_codec(config().data, corpus().source_vocabulary, corpus().target_vocabulary);
  const EvaluationSet set{.examples = examples, .target_texts = no_texts, .codec = codec};
  Config decoding = config();
  if (decoding.train.max_decode_length == 0) {
    // Outputs of an untrained model do not end; those of a trained one are as long as references.
    std::size_t tokens = 0;
    for (const Example& example : examples) tokens += example.target.size() + 1;
    decoding.train.max_decode_length =
        std::max<std::size_t>(1, tokens / std::max<std::size_t>(1, examples.size()));
  }
  const Clock::time_point started = Clock::now();
  task().evaluate(computer_.model(), decoding,
                  batch_rules(config(), corpus().target_vocabulary.size()), set, decoded);
  return seconds_since(started);
}

/// Scores a part of the validation set first, and the whole set if that does not take long.
void RunMeasurement::measure_scoring() {
  const auto& all = corpus().validation;
  const std::size_t part = std::min(all.size(), 4 * config().train.batch_size);
  const double share = static_cast<double>(part) / static_cast<double>(all.size());
  plan_.scoring = time_scores(spread(all, part), 0) / share;
  if (part < all.size() && is_long(plan_.scoring)) {
    plan_.whole_validation = false;
  } else {
    plan_.scoring = time_scores(all, 0);
  }
  plan_.scoring *= 1.0 + static_cast<double>(training_sample_size(config(), corpus())) /
                             static_cast<double>(all.size());
}

/// The same for sequences that are decoded.
void RunMeasurement::measure_decoding() {
  const std::size_t first_part = config().train.batch_size;
  const auto decode = [&](std::size_t count) {
    const std::vector<Example> examples = spread(corpus().validation, count);
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

void RunMeasurement::measure_validation() {
  if (plan_.validations == 0) return;
  measure_scoring();
  const auto& keys = task().kind().keys;
  const bool decodes = std::ranges::find(keys, "train.exact_match_sequences") != keys.end();
  if (decodes) {
    plan_.decoded = std::min(config().train.exact_match_sequences, corpus().validation.size());
  }
  if (plan_.decoded > 0) measure_decoding();
}

void RunMeasurement::measure_save() {
  const Clock::time_point started = Clock::now();
  MemoryFiles files;
  write_checkpoint("checkpoint.h5", computer_.snapshot(), files);
  plan_.saving = seconds_since(started);
  plan_.checkpoint_bytes = files.largest();
  std::error_code error;
  const auto space = std::filesystem::space(existing_folder(plan_.run_dir), error);
  if (!error) plan_.free_disk = space.available;
}

/// The fastest of some repetitions of the first batch shows when the gradient of each parameter is
/// complete; the time of all is that of the measured steps.
void RunMeasurement::measure_costs() {
  constexpr std::size_t repetitions = 3;
  BatchSchedule schedule = make_batch_schedule(corpus(), config());
  const Batch batch = make_batch(corpus().training(), schedule.at(BatchPosition{}),
                                 training_rules(config(), corpus()));
  const auto measure = [&] { return time_micro_batch(batch, config().train, computer_.model()); };
  const auto total = [](const StepCosts& costs) { return costs.forward + costs.backward; };
  StepCosts costs = measure();
  for (std::size_t i = 1; i < repetitions; ++i) {
    StepCosts next = measure();
    if (total(next) < total(costs)) costs = std::move(next);
  }
  const double factor =
      plan_.gradients / static_cast<double>(config().train.accumulate) / total(costs);
  costs.forward *= factor;
  costs.backward *= factor;
  for (double& time : costs.complete) time *= factor;
  const Parameters& parameters = computer_.model().parameters;
  costs.add = time_sum(parameters.num_values(), parameters.dtype());
  costs.update = plan_.update;
  plan_.costs = std::move(costs);
}

void RunMeasurement::measure_report() {
  plan_.reports = count_reports(config().train);
  if (plan_.reports > 0) plan_.reporting = time_report(computer_.snapshot(), corpus());
}

}  // namespace tapestry
