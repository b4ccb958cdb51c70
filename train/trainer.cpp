#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/anomaly.h"
#include "autograd/profiler.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "train/batch_tensors.h"
#include "train/checkpoint.h"
#include "train/error.h"
#include "train/sentence_limit.h"

namespace tapestry {
namespace {

/// The config with the decay of the learning rate tied down: a run that is given more steps later
/// keeps the schedule it has begun.
Config resolved(Config config) {
  ScheduleOptions& schedule = config.schedule;
  if (schedule.kind == ScheduleKind::cosine && schedule.decay_steps == 0) {
    schedule.decay_steps = config.train.steps;
  }
  return config;
}

void require_finite(double value, const char* what, std::uint64_t step) {
  if (std::isfinite(value)) return;
  throw NumericError(
      fmt::format("step {}: the {} is {}, expected a finite number; the weights are those of step "
                  "{}",
                  step, what, value, step - 1),
      "train.detect_anomaly=true names the operation it comes from; often a smaller "
      "schedule.learning_rate or a longer warmup_steps helps");
}

}  // namespace

Trainer::Trainer(Config config, const ParallelCorpus& corpus, RunDirectory& directory,
                 Progress& progress)
    : config_(resolved(std::move(config))),
      corpus_(corpus),
      directory_(directory),
      progress_(progress),
      model_(config_.model,
             {.source = corpus.source_vocabulary.size(), .target = corpus.target_vocabulary.size()},
             config_.train.dtype, config_.train.seed),
      optimizer_(make_optimizer(config_.optimizer, model_.parameters.list())),
      schedule_(make_schedule(config_.schedule)),
      batches_(corpus.train, config_.train.batch_size, config_.train.seed) {
  require_fitting_sentences(corpus, config_.model.max_length);
}

void Trainer::resume(const Snapshot& snapshot) {
  restore(snapshot, {.config = config_,
                     .source_vocabulary = corpus_.source_vocabulary,
                     .target_vocabulary = corpus_.target_vocabulary,
                     .data_fingerprint = corpus_.fingerprint,
                     .model = model_,
                     .optimizer = *optimizer_,
                     .state = state_});
  saved_step_ = state_.step;
}

void Trainer::run(const StopSignal* stop) {
  while (!finished() && (stop == nullptr || stop->received() == 0)) {
    const StepReport report = train_step();
    if (due(config_.train.log_every)) log(report);
    const bool best = due(config_.train.validate_every) && validate_and_compare(report.epoch);
    if (best || due(config_.train.save_every)) save();
  }
  if (saved_step_ != state_.step) save();
}

Trainer::StepReport Trainer::train_step() {
  const std::uint64_t epoch = state_.position.epoch + 1;
  const std::uint64_t step = state_.step + 1;
  const std::vector<Batch> batches = next_batches();
  std::size_t target_tokens = 0;
  for (const Batch& batch : batches) target_tokens += batch.target_tokens;

  model_.parameters.clear_gradients();
  const double loss = gradients_of(batches, target_tokens);
  require_finite(loss, "loss", step);
  const double norm = gradient_norm();
  require_finite(norm, "norm of the gradient", step);

  const double learning_rate = schedule_->learning_rate(step);
  update_weights(learning_rate, norm);
  state_.step = step;
  progress_.step(step, target_tokens, loss);
  return {.epoch = epoch,
          .learning_rate = learning_rate,
          .gradient_norm = norm,
          .loss = loss,
          .target_tokens = target_tokens};
}

double Trainer::gradient_norm() const {
  const ProfileScope scope("gradient norm", Phase::other);
  return global_gradient_norm(model_.parameters.list());
}

void Trainer::update_weights(double learning_rate, double gradient_norm) {
  const ProfileScope scope("optimizer step", Phase::other);
  optimizer_->step(learning_rate, clip_factor(gradient_norm, config_.optimizer.clip_norm));
}

std::vector<Batch> Trainer::next_batches() {
  const ProfileScope scope("batch preparation", Phase::other);
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < config_.train.accumulate; ++i) {
    batches.push_back(make_batch(corpus_.train, batches_.at(state_.position)));
    state_.position = batches_.after(state_.position);
  }
  return batches;
}

/// As accumulate_gradients, which stops at the first anomaly if the config says so.
double Trainer::gradients_of(const std::vector<Batch>& batches, std::size_t target_tokens) {
  try {
    return accumulate_gradients(batches, target_tokens);
  } catch (const AnomalyError& error) {
    throw NumericError(
        fmt::format("step {}: {}; the weights are those of step {}", state_.step + 1, error.what(),
                    state_.step),
        "look at the ranges of its inputs; often a smaller schedule.learning_rate or "
        "a longer warmup_steps helps");
  }
}

/// Adds up the gradients of the mean loss over all target tokens of all batches; returns that loss.
double Trainer::accumulate_gradients(const std::vector<Batch>& batches, std::size_t target_tokens) {
  const RandomStream step_random =
      RandomStream(config_.train.seed).named("dropout").at(state_.step + 1);
  const CrossEntropyOptions options{.ignored_id = pad_id,
                                    .label_smoothing = config_.train.label_smoothing,
                                    .normalizer = target_tokens};
  double loss_mean = 0.0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    double nll_sum = 0.0;
    AnomalyDetector detector;
    Tape tape(config_.train.detect_anomaly ? &detector : nullptr);
    const Tensor loss = batch_loss(batches[i], options, step_random.at(i), &nll_sum);
    tape.backward(loss);
    loss_mean += loss.item();
    state_.running.nll_sum += nll_sum;
  }
  state_.running.loss_sum += loss_mean * static_cast<double>(target_tokens);
  state_.running.tokens += target_tokens;
  return loss_mean;
}

Tensor Trainer::batch_loss(const Batch& batch, const CrossEntropyOptions& options,
                           const RandomStream& random, double* nll_sum) const {
  const Transformer& transformer = model_.transformer;
  const TokenBatch source = source_tokens(batch);
  const Tensor memory = transformer.encode(source, random);
  const Tensor decoded = transformer.decode(decoder_tokens(batch), memory, source, random);
  return transformer.loss(decoded, label_ids(batch), options, nll_sum);
}

void Trainer::log(const StepReport& report) {
  const auto tokens = static_cast<double>(state_.running.tokens);
  const TrainMetrics metrics{.step = state_.step,
                             .epoch = report.epoch,
                             .loss = state_.running.loss_sum / tokens,
                             .perplexity = std::exp(state_.running.nll_sum / tokens),
                             .learning_rate = report.learning_rate,
                             .gradient_norm = report.gradient_norm,
                             .target_tokens = state_.running.tokens};
  state_.running = {};
  state_.metrics.add(metrics);
  progress_.metrics(metrics);
}

Scores Trainer::validate() const {
  const ProfileScope scope("validation and decoding", Phase::other);
  return evaluate(model_, corpus_.validation,
                  {.batch_size = config_.train.batch_size,
                   .decoded_sentences = config_.train.exact_match_sequences,
                   .max_decode_length = config_.train.max_decode_length});
}

bool Trainer::validate_and_compare(std::uint64_t epoch) {
  if (corpus_.validation.empty()) return false;
  const Scores scores = validate();
  const bool best = scores.loss < state_.best_loss;
  if (best) {
    state_.best_loss = scores.loss;
    state_.best_step = state_.step;
  }
  state_.metrics.add_validation(state_.step, epoch, scores);
  progress_.validation(state_.step, scores, best);
  return best;
}

void Trainer::save() {
  const ProfileScope scope("saving", Phase::other);
  const Snapshot snapshot = make_snapshot({.config = config_,
                                           .source_vocabulary = corpus_.source_vocabulary,
                                           .target_vocabulary = corpus_.target_vocabulary,
                                           .data_fingerprint = corpus_.fingerprint,
                                           .model = model_,
                                           .optimizer = *optimizer_,
                                           .state = state_});
  directory_.save(state_.step, snapshot,
                  {.keep_last = config_.train.keep_last, .best_step = state_.best_step});
  state_.metrics.write(directory_.path() / "metrics.csv");
  saved_step_ = state_.step;
}

}  // namespace tapestry
