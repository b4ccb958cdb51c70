#include "train/loop/step_computer.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "data/io/file.h"
#include "train/checkpoint/resume.h"
#include "train/loop/digests.h"
#include "train/models/pretrained.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// The config with decay_steps set explicitly, so that a run that is resumed with more steps keeps
/// its schedule.
Config resolved(Config config) {
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

/// The columns of metrics.csv that only this task has.
std::vector<std::string> other_scores(const Config& config) {
  std::vector<std::string> names;
  for (const std::string_view score : find_task(config).kind().scores) {
    if (score != "exact_match") names.emplace_back(score);
  }
  return names;
}

}  // namespace

bool RunStep::is_finite() const { return std::isfinite(loss.mean) && std::isfinite(gradient_norm); }

StepComputer::StepComputer(Config config, const Corpus& corpus, ProcessGroup& group)
    : config_(resolved(std::move(config))),
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

RunStep StepComputer::next_step(bool ahead) {
  RunStep step{.number = state_.step + 1, .position = state_.position};
  group_.together([&] {
    const PartTimer timer(time_use_, TimePart::batches, "batch preparation");
    StepBatches prepared = batches_.take(state_.position, ahead);
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
  step.loss =
      compute_gradients(step.batches, step.number, config_.train, model_, group_, observers);
  const PartTimer timer(time_use_, TimePart::optimizer, "gradient norm");
  step.gradient_norm = shards_.gradient_norm();
  step.learning_rate = schedule_->learning_rate(step.number);
  step.clip_factor = clip_factor(step.gradient_norm, config_.train.clip_norm);
}

void StepComputer::require_next(const RunStep& step) const {
  if (step.number == state_.step + 1) return;
  throw std::logic_error(fmt::format("StepComputer: found step {}, expected step {}, the next one",
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
  skip(step);
}

void StepComputer::skip(const RunStep& step) {
  require_next(step);
  state_.position = step.next;
  state_.step = step.number;
}

void StepComputer::update_weights(const RunStep& step) {
  const kernels::UncancellableScope whole;  // the other processes wait for this one
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
