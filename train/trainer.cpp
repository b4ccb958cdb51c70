#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "autograd/profiler.h"
#include "data/text/codec.h"
#include "optim/optimizer.h"
#include "train/checkpoint/run_identity.h"
#include "train/error.h"
#include "train/format.h"
#include "train/initial_state.h"
#include "train/non_finite.h"
#include "train/platform/durable_file.h"
#include "train/step.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

constexpr const char* smaller_steps_hint =
    "try a smaller schedule.learning_rate or a longer warmup_steps";

/// The config with decay_steps set explicitly, so that a run that is resumed with more steps keeps
/// its schedule.
Config resolved(Config config) {
  ScheduleOptions& schedule = config.schedule;
  if (schedule.kind == ScheduleKind::cosine && schedule.decay_steps == 0) {
    schedule.decay_steps = config.train.steps;
  }
  return config;
}

/// The sign of a NaN is not printed, since it has no meaning.
std::string value_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

}  // namespace

Trainer::Trainer(Config config, const Corpus& corpus, RunDirectory& directory, Progress& progress)
    : config_(resolved(std::move(config))),
      corpus_(corpus),
      directory_(directory),
      progress_(progress),
      model_(network_maker(config_, network_sizes(config_, corpus)), config_.train.dtype,
             config_.train.seed),
      optimizer_(make_optimizer(config_.optimizer, model_.parameters.list())),
      schedule_(make_schedule(config_.schedule)),
      batches_(corpus.train, config_.train.batch_size, config_.train.seed, batch_lengths(config_)),
      saves_(progress, directory) {
  require_fitting_examples(corpus, config_);
  state_.metrics = MetricsTable(find_task(config_).score_names());
  state_.run_id = make_run_id(config_, corpus_);
}

RunParts Trainer::parts() {
  return {.config = config_,
          .corpus = corpus_,
          .model = model_,
          .optimizer = *optimizer_,
          .state = state_};
}

void Trainer::resume(const Snapshot& snapshot) {
  const Config before = saved_config(snapshot);  // all that can fail comes before restore()
  restore(snapshot, parts());
  saved_step_ = state_.step;
  if (!finished()) revert_end_rows();
  // Batches of another size, or of other data, permitted by the user: an epoch that has begun
  // cannot continue with them, or is over.
  const bool other_batches = before.train.batch_size != config_.train.batch_size ||
                             before.data.train_size != config_.data.train_size;
  const std::size_t batch = state_.position.batch;
  if (batch >= batches_.batches_per_epoch() || (other_batches && batch > 0)) {
    state_.position = {.epoch = state_.position.epoch + 1, .batch = 0};
  }
}

Trainer::StepTime Trainer::try_step() {
  const Clock::time_point started = Clock::now();
  const std::vector<Batch> batches = next_batches();
  const StepLoss loss = compute_gradients(batches, state_.step + 1, config_.train, model_);
  const double norm = gradient_norm();
  if (!std::isfinite(loss.mean + norm)) {
    throw NumericError(fmt::format("step {}: the loss is {} and the norm of the gradient {}, "
                                   "expected finite numbers",
                                   state_.step + 1, value_text(loss.mean), value_text(norm)),
                       smaller_steps_hint);
  }
  const std::uint64_t step = state_.step + 1;
  update_weights(schedule_->learning_rate(step), norm);
  return {.time = Clock::now() - started, .targets = loss.target_tokens, .loss = loss.mean};
}

std::vector<std::string> Trainer::initialize(const TrainedModel& from) {
  state_.run_id = make_run_id(config_, corpus_, from.model.get());
  return load_pretrained(from, config_.train.initialize_from, corpus_.target_vocabulary, model_);
}

void Trainer::note(const std::string& event) {
  state_.history += fmt::format("step {}: {}\n", state_.step, event);
}

bool Trainer::finished() const { return state_.step >= config_.train.steps || out_of_patience(); }

bool Trainer::out_of_patience() const {
  return config_.train.patience > 0 && state_.validations_since_best >= config_.train.patience;
}

std::uint64_t Trainer::checkpoint_bytes() const {
  std::uint64_t values = model_.parameters.num_values();
  for (const NamedTensor& buffer : model_.parameters.buffers()) values += buffer.tensor.size();
  for (const NamedTensor& tensor : optimizer_->state()) values += tensor.tensor.size();
  return values * bytes_per_element(config_.train.dtype);
}

// ---- The run.

Trainer::End Trainer::run(Interruptions interruptions) {
  RunSignals* signals = interruptions.signals;
  TimeLimit& time = interruptions.time;
  end_requested_ = signals != nullptr ? &signals->end_requested() : nullptr;
  if (config_.train.on_nan == OnNan::rollback && !saved_step_ && !finished()) save_as_scheduled();
  std::optional<End> stop;
  while (state_.validation_pending || !finished()) {
    if (signals != nullptr && time.last_call()) signals->end_at(*time.last_call());
    stop = reason_to_stop(interruptions);
    if (stop) break;
    const Clock::time_point started = Clock::now();
    try {
      state_.validation_pending ? finish_interrupted_turn() : turn();
    } catch (const kernels::Cancelled&) {
      continue;
    }
    if (signals != nullptr && signals->take_save_request()) save_on_request();
    time.note_turn(Clock::now() - started);
    time.note_save(longest_save_);
  }
  if (saved_step_ != state_.step) save(true);
  return stop.value_or(End::finished);
}

std::optional<Trainer::End> Trainer::reason_to_stop(const Interruptions& interruptions) const {
  const RunSignals* signals = interruptions.signals;
  const bool time_is_up = signals != nullptr && signals->time_is_up();
  if (time_is_up || interruptions.time.is_up(Clock::now())) return End::time;
  if (signals != nullptr && signals->stop() != 0) return End::signal;
  return std::nullopt;
}

/// One step and the logging, validation and saving due after it.
void Trainer::turn() {
  const StepEnd end = train_step();
  if (end == StepEnd::rolled_back) return;
  if (end == StepEnd::done) {
    if (due(config_.train.log_every)) {
      log();
    } else if (is_last_step()) {
      log_at_end();
    }
  }
  finish_turn();
}

/// The validation and saving due after a step; the last step is always validated.
void Trainer::finish_turn() {
  state_.validation_pending = true;  // in case it is cancelled
  bool best = false;
  if (due(config_.train.validate_every)) {
    best = validate_and_compare();
  } else if (is_last_step()) {
    validate_at_end();
  }
  state_.validation_pending = false;
  if (best || due(config_.train.save_every)) save_as_scheduled();
}

/// Finishes the turn in which an earlier process was stopped.
void Trainer::finish_interrupted_turn() {
  epoch_ = epoch_of_last_step();
  saved_step_.reset();
  finish_turn();
  if (saved_step_ != state_.step) save(is_last_step());
}

Trainer::StepEnd Trainer::train_step() {
  epoch_ = state_.position.epoch + 1;
  const BatchPosition first_batch = state_.position;
  std::vector<Batch> batches;
  StepLoss loss;
  try {
    const kernels::CancellationScope cancellable(end_requested_);
    batches = next_batches();
    loss = compute_gradients(batches, state_.step + 1, config_.train, model_);
  } catch (const kernels::Cancelled&) {
    state_.position = first_batch;
    throw;
  } catch (const AnomalyError&) {  // with train.detect_anomaly; examine() finds the operation again
    return meet_non_finite("a value is not finite", batches);
  }
  if (!std::isfinite(loss.mean)) {
    return meet_non_finite("the loss is " + value_text(loss.mean), batches);
  }
  const double norm = gradient_norm();
  if (!std::isfinite(norm)) {
    return meet_non_finite("the norm of the gradient is " + value_text(norm), batches);
  }
  const double learning_rate = schedule_->learning_rate(state_.step + 1);
  update_weights(learning_rate, norm);
  finish_step(loss, {.learning_rate = learning_rate, .gradient_norm = norm});
  return StepEnd::done;
}

std::vector<Batch> Trainer::next_batches() {
  const ProfileScope scope("batch preparation", Phase::other);
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < config_.train.accumulate; ++i) {
    kernels::throw_if_cancelled();
    batches.push_back(
        make_batch(corpus_.train, batches_.at(state_.position), rules(state_.position.epoch)));
    state_.position = batches_.after(state_.position);
  }
  return batches;
}

BatchRules Trainer::rules(std::uint64_t epoch) const {
  return batch_rules(config_, corpus_.target_vocabulary.size(), epoch);
}

double Trainer::gradient_norm() const {
  const ProfileScope scope("gradient norm", Phase::other);
  return global_gradient_norm(model_.parameters.list());
}

void Trainer::update_weights(double learning_rate, double gradient_norm) {
  const ProfileScope scope("optimizer step", Phase::other);
  optimizer_->step(learning_rate, clip_factor(gradient_norm, config_.train.clip_norm));
  model_.parameters.commit_buffers();
}

void Trainer::finish_step(const StepLoss& loss, StepReport report) {
  report_ = report;
  ++state_.step;
  if (config_.train.on_nan != OnNan::rollback) state_.nan_steps = 0;
  state_.running.loss_sum += loss.mean * static_cast<double>(loss.target_tokens);
  state_.running.nll_sum += loss.nll_sum;
  state_.running.tokens += loss.target_tokens;
  progress_.step(state_.step, loss.target_tokens, loss.mean);
  const double guessing = std::log(static_cast<double>(network_sizes(config_, corpus_).target));
  if (state_.divergence.add(loss.mean, guessing, config_.train.divergence_window)) {
    refuse_divergence();
  }
}

// ---- Non-finite values and divergence.

std::string Trainer::newest_saved() const {
  return saved_step_ ? fmt::format("the newest checkpoint is of step {}", *saved_step_)
                     : "there is no checkpoint yet";
}

void Trainer::refuse_divergence() const {
  throw NumericError(
      fmt::format("step {}: the run has diverged: the mean loss of {} steps was {:.4g} at its best "
                  "and is now {:.4g}; this state is not saved, {}",
                  state_.step, config_.train.divergence_window, state_.divergence.best_mean(),
                  state_.divergence.last_mean(), newest_saved()),
      std::string(smaller_steps_hint) + "; train.divergence_window=0 disables the check");
}

Trainer::StepEnd Trainer::meet_non_finite(const std::string& found,
                                          const std::vector<Batch>& batches) {
  count_nan_step(fmt::format("step {}: {}; the weights are those of step {}", state_.step + 1,
                             examine(found, batches), state_.step));
  if (config_.train.on_nan == OnNan::rollback) {
    roll_back(fmt::format("{} at step {}", found, state_.step + 1));
    return StepEnd::rolled_back;
  }
  note(fmt::format("{} at step {}, which is skipped", found, state_.step + 1));
  ++state_.step;
  return StepEnd::skipped;
}

/// throws  NumericError with train.on_nan: stop, or after more than train.max_nan_steps such steps.
void Trainer::count_nan_step(const std::string& finding) {
  ++state_.nan_steps;
  const std::size_t most = config_.train.max_nan_steps;
  if (config_.train.on_nan == OnNan::stop) {
    throw NumericError(finding,
                       std::string(smaller_steps_hint) + "; train.on_nan=skip skips such a step");
  }
  if (state_.nan_steps > most) {
    throw NumericError(fmt::format("{}; {} consecutive steps, train.max_nan_steps is {}", finding,
                                   state_.nan_steps, most),
                       smaller_steps_hint);
  }
  progress_.message("warning: " + finding);
}

/// Locates the origin of a value that is not finite, stores a report in the run directory and
/// returns a one-line description.
std::string Trainer::examine(const std::string& found, const std::vector<Batch>& batches) {
  const std::size_t target_tokens = count_target_tokens(batches);
  const BatchLoss loss = [&](const Batch& batch, std::size_t index) {
    const BatchPlace place{.step = state_.step + 1, .index = index, .target_tokens = target_tokens};
    return batch_loss(batch, place, config_.train, model_).mean;
  };
  const NonFiniteOrigin origin =
      find_non_finite_origin(loss, corpus_.train, rules(epoch_ - 1), batches, model_.parameters);
  const auto path = directory_.path() / fmt::format("non-finite-step-{:08}.txt", state_.step + 1);
  const TextCodec codec =
      make_codec(config_.data, corpus_.source_vocabulary, corpus_.target_vocabulary);
  const std::string report = fmt::format("step {}: {}\n{}", state_.step + 1, found,
                                         to_text(origin, corpus_.train, config_, codec));
  std::string stored;
  try {
    write_file_durably(path, std::as_bytes(std::span(report)), directory_.files());
    stored = fmt::format("; see {}", path.string());
  } catch (const OutputError& error) {
    stored = fmt::format("; not stored: {}", error.what());
  }
  return fmt::format("{}, expected a finite number{}{}", found, in_words(origin, config_), stored);
}

/// The last scheduled checkpoint, or the newest intact one if that is damaged or missing. It is
/// missing if a run that stopped before its first scheduled save is resumed with rollback.
Snapshot Trainer::rollback_target(const std::string& found) const {
  try {
    return read_checkpoint_of_run(directory_, state_.scheduled_save);
  } catch (const DamagedCheckpoint& damage) {
    progress_.message(fmt::format("warning: {}; another checkpoint is used", damage.what()));
  } catch (const CheckpointError&) {
  }
  std::string reason = "there is no checkpoint to go back to";
  try {
    if (auto newest = read_newest_of_run(directory_)) return std::move(newest->snapshot);
  } catch (const CheckpointError& error) {
    reason = error.what();
  }
  throw NumericError(fmt::format("{}; {}", found, reason), smaller_steps_hint);
}

/// Restores a checkpoint and continues with the data that follow the failed step.
void Trainer::roll_back(const std::string& found) {
  const BatchPosition behind = state_.position;
  const std::uint64_t in_a_row = state_.nan_steps;
  restore(rollback_target(found), parts());
  revert_end_rows();
  saved_step_ = state_.step;
  state_.position = behind;
  state_.nan_steps = in_a_row;
  note(fmt::format("rolled back: {}; continues with epoch {}, batch {}", found, behind.epoch + 1,
                   behind.batch + 1));
  progress_.rolled_back(state_.step);
  progress_.message(fmt::format("rolled back to step {}", format_count(state_.step)));
}

// ---- Logging and validation.

/// Counted from 1; computed from the position of the next batch.
std::uint64_t Trainer::epoch_of_last_step() const {
  const std::uint64_t per_epoch = batches_.batches_per_epoch();
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
  progress_.metrics(metrics);
}

Scores Trainer::validate() const {
  const ProfileScope scope("validation and decoding", Phase::other);
  return find_task(config_).evaluate(model_, config_, rules(0), corpus_.target_vocabulary,
                                     corpus_.validation, config_.train.exact_match_sequences);
}

/// throws  kernels::Cancelled, nothing is changed then.
bool Trainer::validate_and_compare() {
  if (corpus_.validation.empty()) return false;
  const Scores scores = [this] {
    const kernels::CancellationScope cancellable(end_requested_);
    kernels::throw_if_cancelled();
    return validate();
  }();
  const bool best = scores.loss < state_.best_loss;
  ++state_.validations_since_best;
  if (best) {
    state_.best_loss = scores.loss;
    state_.best_step = state_.step;
    state_.validations_since_best = 0;
  }
  // A validation that is due stays when a run continues.
  if (state_.before_end && due(config_.train.validate_every)) {
    state_.before_end->best_loss = state_.best_loss;
    state_.before_end->best_step = state_.best_step;
  }
  state_.metrics.add_validation(state_.step, epoch_, scores);
  progress_.validation(state_.step, find_task(config_).format_scores(scores, config_), best);
  return best;
}

// ---- The rows that only the end of a run adds.

/// Keeps what the rows change; called before the first of them.
void Trainer::begin_end_rows() {
  const std::uint64_t bytes = state_.metrics.csv().size();
  if (state_.before_end) return;
  state_.before_end = BeforeEnd{.running = state_.running,
                                .best_loss = state_.best_loss,
                                .best_step = state_.best_step,
                                .metrics_begin = bytes,
                                .metrics_end = bytes};
}

/// Logs the steps since the last log line.
void Trainer::log_at_end() {
  begin_end_rows();
  log();
  state_.before_end->metrics_end = state_.metrics.csv().size();
}

/// Validates the last step if that is not due; train.patience does not count it.
void Trainer::validate_at_end() {
  begin_end_rows();
  const std::uint64_t counted = state_.validations_since_best;
  validate_and_compare();
  state_.validations_since_best = counted;
  state_.before_end->metrics_end = state_.metrics.csv().size();
}

/// Removes the rows and their effects, for a run that continues.
void Trainer::revert_end_rows() {
  if (!state_.before_end) return;
  const BeforeEnd before = *std::exchange(state_.before_end, std::nullopt);
  state_.running = before.running;
  state_.best_loss = before.best_loss;
  state_.best_step = before.best_step;
  state_.metrics.erase(before.metrics_begin, before.metrics_end);
}

// ---- Saving.

void Trainer::save_as_scheduled() {
  if (config_.train.on_nan == OnNan::rollback) {
    if (const auto found = find_non_finite_state(model_.parameters, *optimizer_)) {
      count_nan_step(fmt::format("step {}: {}", state_.step, *found));
      return roll_back(fmt::format("{} at step {}", *found, state_.step));
    }
  }
  // The checkpoint records its own step as the last scheduled save; reverted if writing it fails.
  const std::uint64_t scheduled_before = std::exchange(state_.scheduled_save, state_.step);
  const std::uint64_t nan_steps = state_.nan_steps;
  if (config_.train.on_nan == OnNan::rollback) state_.nan_steps = 0;
  if (save(finished())) return;
  state_.scheduled_save = scheduled_before;
  state_.nan_steps = nan_steps;
}

void Trainer::save_on_request() {
  if (saved_step_ != state_.step) save(finished());
  if (saved_step_ != state_.step) return;  // save() has already warned
  progress_.message(
      fmt::format("saved at step {}, as a signal requested", format_count(state_.step)));
}

/// Saves a checkpoint. Returns whether it was written; a failure is reported as a warning.
/// last  whether this is the last save of the run
bool Trainer::save(bool last) {
  const ProfileScope scope("saving", Phase::other);
  if (const auto found = find_non_finite_state(model_.parameters, *optimizer_)) {
    refuse_state(*found);
  }
  const Clock::time_point started = Clock::now();
  const bool saved = saves_.attempt([this] { write_files(); }, state_.step, last);
  if (saved) saved_step_ = state_.step;
  const Clock::duration time = Clock::now() - started;
  longest_save_ = std::max(longest_save_, time);
  progress_.exclude(time);
  return saved;
}

/// Writes the metrics first, so that the run is complete once the last checkpoint is written.
void Trainer::write_files() {
  directory_.require_lock();
  state_.metrics.write(directory_.path() / "metrics.csv", directory_.files());
  if (!state_.history.empty()) {
    write_file_durably(directory_.path() / "history.txt", std::as_bytes(std::span(state_.history)),
                       directory_.files());
  }
  directory_.save(
      state_.step, make_snapshot(parts()),
      {.keep_last = config_.train.keep_last,
       .best_step = state_.best_step,
       .previous_best_step = state_.before_end ? state_.before_end->best_step : std::nullopt,
       .scheduled_step = state_.scheduled_save});
}

void Trainer::refuse_state(const std::string& found) const {
  throw NumericError(
      fmt::format("step {}: {}; this state is not saved, {}", state_.step, found, newest_saved()),
      smaller_steps_hint);
}

}  // namespace tapestry
