#include "train/loop/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <utility>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "train/base/error.h"
#include "train/checkpoint/kept_checkpoints.h"
#include "train/loop/non_finite.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

}  // namespace

Trainer::Trainer(Config config, const Corpus& corpus, RunDirectory& directory, Progress& progress,
                 ProcessGroup& group)
    : computer_(std::move(config), corpus, group),
      config_(computer_.config()),
      corpus_(corpus),
      group_(group),
      model_(computer_.model()),
      state_(computer_.state()),
      time_use_(computer_.time_use()),
      codec_(make_codec(config_.data, corpus.source_vocabulary, corpus.target_vocabulary)),
      directory_(directory),
      progress_(progress),
      validator_(computer_.parts(), codec_, computer_.shards(), group, time_use_),
      recorder_(computer_.parts(), progress, time_use_),
      saver_(computer_.parts(), computer_.shards(), directory, progress, group, time_use_) {}

void Trainer::resume(const ArrayStore& snapshot) {
  const Config before = saved_config(snapshot);  // all that can fail comes before restore()
  computer_.restore(snapshot);
  saver_.note_restored();
  if (!finished()) state_.revert_end_rows();
  const bool other_values = before.train.best_metric != config_.train.best_metric ||
                            (config_.train.best_metric == "bleu" &&
                             before.train.bleu_tokenizer != config_.train.bleu_tokenizer);
  if (other_values) {
    state_.best_value = std::numeric_limits<double>::infinity();
    state_.best_step.reset();
    state_.validations_since_best = 0;
  }
  // Batches of another size, or of other data, permitted by the user: an epoch that has begun
  // cannot continue with them, or is over.
  const bool other_batches = has_other_batches(before, config_);
  const std::size_t batch = state_.position.batch;
  if (batch >= computer_.batches_per_epoch() || (other_batches && batch > 0)) {
    state_.position = {.epoch = state_.position.epoch + 1, .batch = 0};
  }
}

void Trainer::record_to(const std::filesystem::path& folder) {
  // The validation of the last step is dropped if it is repeated, or was due at the end only.
  const bool repeated =
      state_.validation_pending || !(finished() || records_after_step(state_.step));
  const std::uint64_t kept = repeated && state_.step > 0 ? state_.step - 1 : state_.step;
  recorder_.start(folder, kept);
}

void Trainer::note(const std::string& event) {
  state_.history += fmt::format("step {}: {}\n", state_.step, event);
}

bool Trainer::finished() const { return state_.step >= config_.train.steps || out_of_patience(); }

bool Trainer::out_of_patience() const {
  return config_.train.patience > 0 && state_.validations_since_best >= config_.train.patience;
}

// ---- The run.

RunEnd Trainer::run(Interruptions interruptions) try {
  RunSignals* signals = interruptions.signals;
  TimeLimit& time = interruptions.time;
  end_requested_ = signals != nullptr ? &signals->end_requested() : nullptr;
  if (config_.train.on_nan == OnNan::rollback && !saver_.saved_step() && !finished()) {
    save_as_scheduled();
  }
  if (state_.best_step) validator_.report_best(progress_);
  std::optional<RunEnd> stop;
  while (state_.validation_pending || !finished()) {
    saver_.collect();
    time.note_save(saver_.longest(), saver_.is_in_flight());
    if (signals != nullptr && time.last_call()) signals->end_at(*time.last_call());
    stop = agree_to_end(interruptions, state_, group_);
    if (stop) break;
    const Clock::time_point started = Clock::now();
    try {
      state_.validation_pending ? finish_interrupted_turn() : turn();
    } catch (const kernels::Cancelled&) {
      continue;
    }
    if (group_.any_process(signals != nullptr && signals->take_save_request())) {
      saver_.save_on_request(finished());
    }
    time.note_turn(Clock::now() - started);
  }
  saver_.finish();
  if (saver_.saved_step() != state_.step) saver_.save(true);
  recorder_.add_time(true);
  if (finished() && !state_.validation_pending &&
      group_.any_process(!average_last_checkpoints_())) {
    stop = agree_to_end(interruptions, state_, group_);
  }
  if (config_.train.report_every > 0 && finished()) {
    report();
    recorder_.add_time(true);
  }
  return stop.value_or(RunEnd::finished);
} catch (...) {
  saver_.finish_after_error();
  throw;
}

/// One step and the logging, validation and saving due after it.
void Trainer::turn() {
  const StepEnd end = train_step();
  if (end == StepEnd::rolled_back) return;
  recorder_.add_digests();
  if (end == StepEnd::done) {
    if (due(config_.train.log_every)) {
      log();
    } else if (is_last_step()) {
      state_.add_end_rows([this] { log(); });
    }
  }
  finish_turn();
}

/// The validation and saving due after a step; the last step is always validated.
void Trainer::finish_turn() {
  state_.validation_pending = true;  // in case it is cancelled
  bool among_best = false;
  if (due(config_.train.validate_every)) {
    among_best = validate_and_compare();
  } else if (is_last_step()) {
    validate_at_end();
  }
  state_.validation_pending = false;
  if (among_best || due(config_.train.save_every)) save_as_scheduled();
  if (report_is_due()) report();
}

/// Finishes the turn in which an earlier process was stopped.
void Trainer::finish_interrupted_turn() {
  epoch_ = epoch_of_last_step();
  saver_.save_again();
  finish_turn();
  saver_.finish();
  if (saver_.saved_step() != state_.step) saver_.save(is_last_step());
}

/// With train.on_nan: rollback, a state that is not finite is rolled back instead.
void Trainer::save_as_scheduled() {
  saver_.finish();
  if (config_.train.on_nan == OnNan::rollback) {
    if (const auto found =
            find_non_finite_state(model_.parameters, computer_.parts().optimizer, group_)) {
      count_nan_step(fmt::format("step {}: {}", state_.step, *found));
      return roll_back(fmt::format("{} at step {}", *found, state_.step));
    }
  }
  saver_.save_as_scheduled(finished());
}

Trainer::StepEnd Trainer::train_step() {
  epoch_ = state_.position.epoch + 1;
  RunStep step;
  try {
    const kernels::CancellationScope cancellable(end_requested_);
    step = computer_.next_step(state_.step + 1 < config_.train.steps);
    computer_.compute(step);
  } catch (const AnomalyError&) {  // with train.detect_anomaly; examine() finds the operation again
    return meet_non_finite("a value is not finite", step);
  }
  if (!std::isfinite(step.loss.mean)) {
    return meet_non_finite("the loss is " + value_text(step.loss.mean), step);
  }
  if (!std::isfinite(step.gradient_norm)) {
    return meet_non_finite("the norm of the gradient is " + value_text(step.gradient_norm), step);
  }
  apply_and_watch_weights(step);
  finish_step(step);
  return StepEnd::done;
}

void Trainer::finish_step(const RunStep& step) {
  report_ = {.learning_rate = step.learning_rate, .gradient_norm = step.gradient_norm};
  if (config_.train.on_nan != OnNan::rollback) state_.nan_steps = 0;
  progress_.step(state_.step, step.loss.target_tokens, step.loss.mean);
  const double guessing = std::log(static_cast<double>(network_sizes(config_, corpus_).target));
  if (state_.divergence.add(step.loss.mean, guessing, config_.train.divergence_window)) {
    refuse_divergence();
  }
}

// ---- Logging and validation.

/// Counted from 1; computed from the position of the next batch.
std::uint64_t Trainer::epoch_of_last_step() const {
  const std::uint64_t per_epoch = computer_.batches_per_epoch();
  const std::uint64_t next = state_.position.epoch * per_epoch + state_.position.batch;
  return (next - std::min<std::uint64_t>(next, config_.train.accumulate)) / per_epoch + 1;
}

void Trainer::log() {
  const auto tokens = static_cast<double>(state_.running.tokens);
  const TrainMetrics metrics{.step = state_.step,
                             .epoch = epoch_,
                             .loss = state_.running.loss_sum / tokens,
                             .perplexity = std::exp(state_.running.nll_sum / tokens),
                             .learning_rate = report_.learning_rate,
                             .gradient_norm = report_.gradient_norm,
                             .target_tokens = state_.running.tokens};
  state_.running = {};
  state_.metrics.add(metrics);
  recorder_.add_rows();
  recorder_.add_speed(progress_.metrics(metrics));
  recorder_.add_time(false);
}

Scores Trainer::validate() { return validator_.score(end_requested_); }

/// Returns whether the validation is one of the train.keep_best best ones.
/// throws  kernels::Cancelled, nothing is changed then.
bool Trainer::validate_and_compare() {
  if (corpus_.validation.empty()) return false;
  Scores scores;
  group_.together([&] { scores = validate(); });
  const std::string& metric = config_.train.best_metric;
  const bool best = state_.compare_validation(metric, score_value(scores, metric),
                                              due(config_.train.validate_every));
  state_.metrics.add_validation(state_.step, epoch_, scores);
  recorder_.add_validation(scores);
  validator_.report(scores, best, progress_);
  return best || is_further_best(state_.step, state_.metrics.csv(), config_.train);
}

/// Validates the last step if that is not due; train.patience does not count it.
void Trainer::validate_at_end() {
  state_.add_end_rows([this] {
    const std::uint64_t counted = state_.validations_since_best;
    validate_and_compare();
    state_.validations_since_best = counted;
  });
}

// ---- The recording.

/// Whether the step is followed by a validation.
bool Trainer::records_after_step(std::uint64_t step) const {
  const bool is_validated = step % config_.train.validate_every == 0 || step >= config_.train.steps;
  return is_validated && !corpus_.validation.empty();
}

/// Applies the step, observed if a record of it follows.
void Trainer::apply_and_watch_weights(const RunStep& step) {
  const bool is_recorded = records_after_step(step.number);
  if (is_recorded) {
    computer_.shards().gather_gradients();  // rank 0 records their statistics
    recorder_.before_update();
  }
  computer_.apply(step);
  if (is_recorded) recorder_.after_update();
}

// ---- Reports during the run.

/// The report at the end of a run is written after its last save.
bool Trainer::report_is_due() const {
  const TrainOptions& train = config_.train;
  if (train.report_every == 0 || finished() || !due(train.validate_every)) return false;
  return state_.step / train.validate_every % train.report_every == 0;
}

void Trainer::report() {
  saver_.finish();  // the report shows the newest checkpoint
  recorder_.add_time(true);
  const PartTimer timer(time_use_, TimePart::reports, "report");
  const Clock::time_point started = Clock::now();
  write_report_();
  progress_.exclude(Clock::now() - started);
}

}  // namespace tapestry
