// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/step.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/losses.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "data/io/file.h"
#include "train/base/error.h"
#include "train/checkpoint/run_id.h"
#include "train/inference/batch_tensors.h"
#include "train/models/trained_model.h"
#include "train/parallel/gradient_sum.h"
#include "train/recording/run_events.h"
#include "train/system/message.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

using Clock = std::chrono::steady_clock;

/// Sends the pending buffer updates of all processes to every process, in the order of the
/// micro-batches.
void gather_pending_updates(const Parameters& parameters, ProcessGroup& group) {
  if (group.size() == 1 || parameters.averages().empty()) return;
  const auto messages = group.all_gather([&] {
    MessageWriter own;
    for (const RunningAverage& average : parameters.averages()) {
      own.put(average.pending_updates().size());
      for (const RunningAverage::Update& update : average.pending_updates()) {
        own.put(update.decay);
        own.put(update.weight);
        dispatch(update.batch_value.dtype(), [&]<class T>() {
          for (const T value : update.batch_value.values<T>()) own.put(value);
        });
      }
    }
    return own.take();
  });
  for (const RunningAverage& average : parameters.averages()) average.discard();
  for (const std::string& message : messages) {
    MessageReader reader(message);
    for (const RunningAverage& average : parameters.averages()) {
      for (auto updates = reader.get<std::size_t>(); updates > 0; --updates) {
        const auto decay = reader.get<double>(), weight = reader.get<double>();
        Tensor batch_value = Tensor::empty(average.value().shape(), average.value().dtype());
        dispatch(batch_value.dtype(), [&]<class T>() {
          for (T& value : batch_value.mutable_values<T>()) value = reader.get<T>();
        });
        average.update(batch_value, decay, weight);
      }
    }
  }
}

/// The config with decay_steps set explicitly, so that a run that is resumed with more steps keeps
/// its schedule.
Config with_decay_steps(Config config) {
  ScheduleOptions& schedule = config.schedule;
  if (schedule.kind == ScheduleKind::cosine && schedule.decay_steps == 0) {
    schedule.decay_steps = config.train.steps;
  }
  return config;
}

std::optional<WeightAverage> make_average(const Config& config, const Model& model,
                                          const ParameterShards& shards) {
  if (config.train.ema_decay == 0.0) return std::nullopt;
  return WeightAverage(model.parameters.list(), config.train.ema_decay, shards.own());
}

/// The columns of metrics.csv that are specific to this task.
std::vector<std::string> other_scores(const Config& config) {
  std::vector<std::string> names;
  for (const std::string_view score : find_task(config).kind().scores) {
    if (score != "exact_match") names.emplace_back(score);
  }
  return names;
}

std::size_t count_target_tokens(const std::vector<Batch>& batches) {
  std::size_t sum = 0;
  for (const Batch& batch : batches) sum += batch.target_tokens;
  return sum;
}

/// Adds the losses of all processes, in the order of the batches.
void add_losses(const std::vector<std::string>& of_processes, StepLoss& sum) {
  for (const std::string& losses : of_processes) {
    for (MessageReader reader(losses); !reader.at_end();) {
      sum.mean += reader.get<double>();
      sum.nll_sum += reader.get<double>();
    }
  }
}

/// Sets the total duration, and the duration of the exchange: the total without the other parts.
void add_gradients(StepDurations& durations, Clock::duration gradients, bool is_exchanged) {
  durations.gradients = gradients;
  if (!is_exchanged) return;
  durations.exchange =
      gradients - durations.forward - durations.backward - durations.anomaly_checks;
}

}  // namespace

ExchangeOptions exchange_options(const TrainOptions& options) {
  return {.bucket_bytes = options.bucket_bytes(),
          .bfloat16 = options.gradient_exchange == GradientFormat::bfloat16};
}

Loss training_loss(const Model& model, const Batch& batch, const CrossEntropyOptions& options,
                   const Mode& mode) {
  const Network& network = *model.network;
  const NetworkInput input = network_input(batch, model.parameters.dtype());
  const Tensor features = network.features(network.embed(input, mode), input, mode);
  return network.loss(features, label_ids(batch), options);
}

bool RunStep::is_finite() const { return std::isfinite(loss.mean) && std::isfinite(gradient_norm); }

StepComputer::StepComputer(Config config, const Corpus& corpus, ProcessGroup& group)
    : config_(with_decay_steps(std::move(config))),
      corpus_(corpus),
      group_(group),
      model_(network_maker(config_, network_sizes(config_, corpus)), config_.train.dtype,
             config_.train.seed),
      shards_(model_.parameters, group, config_.train.bucket_bytes()),
      optimizer_(make_optimizer(config_.optimizer, model_.parameters.list(), {}, shards_.own())),
      average_(make_average(config_, model_, shards_)),
      schedule_(make_schedule(config_.schedule)),
      batches_(corpus, config_) {
  require_fitting_examples(corpus, config_);
  state_.metrics = MetricsTable(other_scores(config_));
  state_.run_id = make_run_id(config_, corpus_);
}

void StepComputer::restore(const ArrayStore& snapshot) {
  tapestry::restore(snapshot, parts());
  restored_digest_ = digest_of_shard_states(snapshot);
}

void StepComputer::resume(const ArrayStore& snapshot) {
  const bool other_batches = has_other_batches(saved_config(snapshot), config_);
  restore(snapshot);
  const std::size_t batch = state_.position.batch;
  if (batch >= batches_per_epoch() || (other_batches && batch > 0)) {
    state_.position = {.epoch = state_.position.epoch + 1, .batch = 0};
  }
}

std::vector<std::string> StepComputer::initialize(const TrainedModel& from) {
  state_.run_id = make_run_id(config_, corpus_, from.model.get());
  auto lines =
      load_pretrained(from, config_.train.initialize_from, corpus_.target_vocabulary, model_);
  if (average_) average_->reset();
  return lines;
}

RunParts StepComputer::parts() {
  return {.config = config_,
          .corpus = corpus_,
          .model = model_,
          .optimizer = *optimizer_,
          .average = average_ ? &*average_ : nullptr,
          .state = state_};
}

std::string StepComputer::state_text() const {
  const auto digests = compute_digests(model_.parameters);
  Xxh3 digest;
  digest.add(digests.data(), digests.size() * sizeof(digests.front()));
  digest.add(&restored_digest_, sizeof(restored_digest_));
  return fmt::format("run {} at step {}, digest {:016x}", state_.run_id, state_.step,
                     digest.value());
}

// ---- A step.

RunStep StepComputer::next_step(bool prefetch) {
  RunStep step{.number = state_.step + 1, .position = state_.position};
  group_.together([&] {
    const PartTimer timer(time_use_, TimePart::batches, "batch preparation");
    StepBatches prepared = batches_.take(state_.position, prefetch);
    step.next = prepared.next;
    step.batches = std::move(prepared.batches);
  });
  return step;
}

RunStep StepComputer::next_step(std::vector<Batch> batches) const {
  return {.number = state_.step + 1,
          .position = state_.position,
          .next = state_.position,
          .batches = std::move(batches)};
}

void StepComputer::compute(RunStep& step, const BatchObservers& observers) {
  const Clock::time_point started = Clock::now();
  step.loss = {.target_tokens = count_target_tokens(step.batches)};
  model_.parameters.zero_grad();
  GradientSum gradients(model_.parameters, step.batches.size(), group_,
                        exchange_options(config_.train));
  const auto compute_own_batches = [&] {
    MessageWriter losses;
    for (std::size_t i = gradients.own().begin; i < gradients.own().end; ++i) {
      const Loss loss = compute_batch(step, i, observers, gradients);
      losses.put(loss.mean.item());
      losses.put(loss.nll_sum);
    }
    return losses.take();
  };
  const auto losses = group_.all_gather(compute_own_batches, [&] { gradients.abandon(); });
  gradients.finish();
  gather_pending_updates(model_.parameters, group_);
  add_losses(losses, step.loss);
  add_gradients(step.loss.durations, Clock::now() - started, group_.size() > 1);
  const PartTimer timer(time_use_, TimePart::optimizer, "gradient norm");
  step.gradient_norm = shards_.gradient_norm();
  step.learning_rate = schedule_->learning_rate(step.number);
  step.clip_factor = clip_factor(step.gradient_norm, config_.train.clip_norm);
}

/// Runs the forward and backward pass of a batch and adds its gradients to the sum.
Loss StepComputer::compute_batch(RunStep& step, std::size_t index, const BatchObservers& observers,
                                 GradientSum& gradients) {
  AnomalyDetector detector;
  const std::unique_ptr<TapeObserver> observer = observers ? observers(index) : nullptr;
  Tape tape(config_.train.detect_anomaly ? &detector : observer.get());
  // Excludes the time of anomaly checks.
  const auto computing_time = [&] { return Clock::now() - detector.time(); };
  const Clock::time_point begin = computing_time();
  Loss loss = batch_loss(step, step.batches[index], index);
  const Clock::time_point middle = computing_time();
  gradients.follow(tape);
  tape.backward(loss.mean);
  gradients.add();
  StepDurations& durations = step.loss.durations;
  durations.forward += middle - begin;
  durations.backward += computing_time() - middle;
  durations.anomaly_checks += detector.time();
  return loss;
}

Loss StepComputer::batch_loss(const RunStep& step, const Batch& batch, std::size_t index) const {
  const RandomStream random =
      RandomStream(config_.train.seed).named("dropout").at(step.number).at(index);
  const CrossEntropyOptions options{.ignored_id = no_label,
                                    .label_smoothing = config_.train.label_smoothing,
                                    .normalizer = step.loss.target_tokens};
  return training_loss(model_, batch, options, Mode::training(random).with_deferred_averages());
}

void StepComputer::require_next(const RunStep& step) const {
  if (step.number == state_.step + 1) return;
  throw std::logic_error(fmt::format("StepComputer: found step {}, expected the next step, {}",
                                     step.number, state_.step + 1));
}

void StepComputer::apply(const RunStep& step) {
  require_next(step);
  update_weights(step);
  const StepDurations& durations = step.loss.durations;
  time_use_.add(TimePart::forward, durations.forward);
  time_use_.add(TimePart::backward, durations.backward);
  time_use_.add(TimePart::anomaly_checks, durations.anomaly_checks);
  time_use_.add(TimePart::exchange, durations.exchange);
  for (const Batch& batch : step.batches) time_use_.add(batch);
  state_.running.loss_sum += step.loss.mean * static_cast<double>(step.loss.target_tokens);
  state_.running.nll_sum += step.loss.nll_sum;
  state_.running.tokens += step.loss.target_tokens;
  count_step(step);
}

void StepComputer::skip(const RunStep& step) {
  require_next(step);
  count_step(step);
}

void StepComputer::count_step(const RunStep& step) {
  state_.position = step.next;
  state_.step = step.number;
}

void StepComputer::update_weights(const RunStep& step) {
  const kernels::UncancellableScope whole;  // the other processes wait for the shard
  {
    const PartTimer timer(time_use_, TimePart::optimizer, "optimizer step");
    optimizer_->step(step.learning_rate, step.clip_factor);
    if (average_) average_->update(optimizer_->steps());
    model_.parameters.commit_buffers();
  }
  if (group_.size() == 1) return;
  const PartTimer timer(time_use_, TimePart::exchange, "exchange of parameters");
  shards_.all_gather_parameters();
}

}  // namespace tapestry
