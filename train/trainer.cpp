#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <new>
#include <span>
#include <utility>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "optim/optimizer.h"
#include "train/checkpoint/run_identity.h"
#include "train/error.h"
#include "train/format.h"
#include "train/initial_state.h"
#include "train/kept_checkpoints.h"
#include "train/non_finite.h"
#include "train/platform/message.h"
#include "train/report/held_out.h"
#include "train/step.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

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

/// The sign of a NaN is not printed, since it has no meaning.
std::string value_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

}  // namespace

Trainer::Trainer(Config config, const Corpus& corpus, RunDirectory& directory, Progress& progress,
                 ProcessGroup& group)
    : config_(resolved(std::move(config))),
      corpus_(corpus),
      codec_(make_codec(config_.data, corpus.source_vocabulary, corpus.target_vocabulary)),
      directory_(directory),
      progress_(progress),
      group_(group),
      model_(network_maker(config_, network_sizes(config_, corpus)), config_.train.dtype,
             config_.train.seed),
      shards_(model_.parameters, group, config_.train.bucket_bytes()),
      optimizer_(make_optimizer(config_.optimizer, model_.parameters.list(), {}, shards_.own())),
      average_(make_average(config_, model_, shards_)),
      schedule_(make_schedule(config_.schedule)),
      batches_(corpus, config_),
      saves_(progress, directory) {
  require_fitting_examples(corpus, config_);
  state_.metrics = MetricsTable(other_scores(config_));
  state_.run_id = make_run_id(config_, corpus_);
}

RunParts Trainer::parts() {
  return {.config = config_,
          .corpus = corpus_,
          .model = model_,
          .optimizer = *optimizer_,
          .average = average_ ? &*average_ : nullptr,
          .state = state_};
}

void Trainer::restore_state(const Snapshot& snapshot) {
  restore(snapshot, parts());
  restored_digest_ = digest_of_shard_states(snapshot);
}

void Trainer::resume(const Snapshot& snapshot) {
  const Config before = saved_config(snapshot);  // all that can fail comes before restore()
  restore_state(snapshot);
  group_.note_step(state_.step);
  saved_step_ = state_.step;
  if (!finished()) revert_end_rows();
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
  if (batch >= batches_.batches_per_epoch() || (other_batches && batch > 0)) {
    state_.position = {.epoch = state_.position.epoch + 1, .batch = 0};
  }
}

Trainer::StepTime Trainer::try_step(bool ahead) {
  const Clock::time_point started = Clock::now();
  std::vector<Batch> batches;
  group_.together([&] { batches = next_batches(ahead); });
  const Clock::duration preparation = Clock::now() - started;
  StepTime step = try_step(batches);
  step.preparation = preparation;
  step.time += preparation;
  return step;
}

Trainer::StepTime Trainer::try_step(const std::vector<Batch>& batches) {
  const Clock::time_point started = Clock::now();
  const std::uint64_t step = state_.step + 1;
  const StepLoss loss = compute_gradients(batches, step, config_.train, model_, group_);
  const Clock::duration gradients = Clock::now() - started;
  const double norm = gradient_norm();
  if (!std::isfinite(loss.mean + norm)) {
    throw NumericError(fmt::format("step {}: the loss is {} and the norm of the gradient {}, "
                                   "expected finite numbers",
                                   step, value_text(loss.mean), value_text(norm)),
                       smaller_steps_hint);
  }
  update_weights(schedule_->learning_rate(step), norm);
  state_.step = step;
  std::uint64_t positions = 0;
  for (const Batch& batch : batches) {
    positions += std::uint64_t{batch.rows} * (batch.source_length + batch.target_length);
  }
  return {.time = Clock::now() - started,
          .gradients = gradients,
          .targets = loss.target_tokens,
          .positions = positions,
          .loss = loss.mean};
}

Trainer::StepRecord Trainer::replay_step(
    const std::function<void(const StepRecord&)>& before_update, const BatchObservers& observers) {
  StepRecord record{.step = state_.step + 1, .position = state_.position};
  record.batches = next_batches(false);
  record.loss =
      compute_gradients(record.batches, record.step, config_.train, model_, group_, observers);
  record.gradient_norm = gradient_norm();
  record.clip_factor = clip_factor(record.gradient_norm, config_.train.clip_norm);
  record.learning_rate = schedule_->learning_rate(record.step);
  record.updated = std::isfinite(record.loss.mean) && std::isfinite(record.gradient_norm);
  before_update(record);
  if (record.updated) update_weights(record.learning_rate, record.gradient_norm);
  state_.step = record.step;
  return record;
}

std::vector<std::string> Trainer::initialize(const TrainedModel& from) {
  state_.run_id = make_run_id(config_, corpus_, from.model.get());
  auto lines =
      load_pretrained(from, config_.train.initialize_from, corpus_.target_vocabulary, model_);
  if (average_) average_->reset();
  return lines;
}

void Trainer::record_to(const std::filesystem::path& folder) {
  // The validation of the last step is dropped if it is repeated, or was due at the end only.
  const bool repeated =
      state_.validation_pending || !(finished() || records_after_step(state_.step));
  const std::uint64_t kept = repeated && state_.step > 0 ? state_.step - 1 : state_.step;
  try {
    recorder_.emplace(RunRecorder::Start{.folder = folder,
                                         .config = config_,
                                         .parameters = model_.parameters,
                                         .metrics_csv = state_.metrics.csv(),
                                         .step = state_.step,
                                         .last_step = kept});
  } catch (const std::exception& error) {
    progress_.message(fmt::format("warning: the run is not recorded: {}", error.what()));
    return;
  }
  warn_of_recording();
}

void Trainer::note(const std::string& event) {
  state_.history += fmt::format("step {}: {}\n", state_.step, event);
}

bool Trainer::finished() const { return state_.step >= config_.train.steps || out_of_patience(); }

bool Trainer::out_of_patience() const {
  return config_.train.patience > 0 && state_.validations_since_best >= config_.train.patience;
}

std::string Trainer::state_text() const {
  Xxh3 digest;
  const auto add = [&](std::span<const NamedTensor> tensors) {
    for (const NamedTensor& named : tensors) {
      dispatch(named.tensor.dtype(), [&]<class T>() {
        const auto values = named.tensor.values<T>();
        digest.add(values.data(), values.size_bytes());
      });
    }
  };
  add(model_.parameters.list());
  add(model_.parameters.buffers());
  digest.add(&restored_digest_, sizeof(restored_digest_));
  return fmt::format("run {} at step {}, digest {:016x}", state_.run_id, state_.step,
                     digest.value());
}

std::uint64_t Trainer::checkpoint_bytes() const {
  std::uint64_t values = model_.parameters.num_values();
  for (const NamedTensor& buffer : model_.parameters.buffers()) values += buffer.tensor.size();
  const std::size_t kinds = optimizer_->state().size() / model_.parameters.list().size();
  values += (kinds + (average_ ? 1 : 0)) * model_.parameters.num_values();
  return values * bytes_per_element(config_.train.dtype);
}

// ---- The run.

Trainer::End Trainer::run(Interruptions interruptions) try {
  RunSignals* signals = interruptions.signals;
  TimeLimit& time = interruptions.time;
  end_requested_ = signals != nullptr ? &signals->end_requested() : nullptr;
  if (config_.train.on_nan == OnNan::rollback && !saved_step_ && !finished()) save_as_scheduled();
  if (state_.best_step) report_best();
  std::optional<End> stop;
  while (state_.validation_pending || !finished()) {
    collect_save();
    time.note_save(longest_save(), save_in_flight_.has_value());
    if (signals != nullptr && time.last_call()) signals->end_at(*time.last_call());
    stop = agree_to_stop(interruptions);
    if (stop) break;
    const Clock::time_point started = Clock::now();
    try {
      state_.validation_pending ? finish_interrupted_turn() : turn();
    } catch (const kernels::Cancelled&) {
      continue;
    }
    if (group_.any_process(signals != nullptr && signals->take_save_request())) save_on_request();
    time.note_turn(Clock::now() - started);
  }
  finish_save();
  if (saved_step_ != state_.step) save({.last = true});
  record_time_use(true);
  if (finished() && !state_.validation_pending &&
      group_.any_process(!average_last_checkpoints_())) {
    stop = agree_to_stop(interruptions);
  }
  if (config_.train.report_every > 0 && finished()) {
    report();
    record_time_use(true);
  }
  return stop.value_or(End::finished);
} catch (...) {
  finish_save_after_error();
  throw;
}

std::optional<Trainer::End> Trainer::reason_to_stop(const Interruptions& interruptions) const {
  const RunSignals* signals = interruptions.signals;
  const bool time_is_up = signals != nullptr && signals->time_is_up();
  if (time_is_up || interruptions.time.is_up(Clock::now())) return End::time;
  if (signals != nullptr && signals->stop() != 0) return End::signal;
  const bool is_reached = interruptions.last_step && state_.step >= *interruptions.last_step;
  if (is_reached && !state_.validation_pending) return End::last_step;
  return std::nullopt;
}

/// reason_to_stop() of the lowest rank that has one. A signal that another process received
/// counts as received by this one.
std::optional<Trainer::End> Trainer::agree_to_stop(const Interruptions& interruptions) {
  const auto own = reason_to_stop(interruptions);
  if (group_.size() == 1) return own;
  const auto reasons = group_.all_gather([&] {
    MessageWriter reason;
    if (own) {
      reason.put(static_cast<int>(*own));
      reason.put(interruptions.signals != nullptr ? interruptions.signals->stop() : 0);
    }
    return reason.take();
  });
  const auto first = std::ranges::find_if_not(reasons, &std::string::empty);
  if (first == reasons.end()) return std::nullopt;
  MessageReader reason(*first);
  const auto end = static_cast<End>(reason.get<int>());
  if (end == End::signal && interruptions.signals != nullptr) {
    interruptions.signals->stop_by(reason.get<int>());
  }
  return end;
}

/// One step and the logging, validation and saving due after it.
void Trainer::turn() {
  const StepEnd end = train_step();
  if (end == StepEnd::rolled_back) return;
  with_recorder([this](RunRecorder& recorder) { recorder.add_digests(state_.step); });
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
  saved_step_.reset();
  finish_turn();
  finish_save();
  if (saved_step_ != state_.step) save({.last = is_last_step()});
}

Trainer::StepEnd Trainer::train_step() {
  epoch_ = state_.position.epoch + 1;
  const BatchPosition first_batch = state_.position;
  std::vector<Batch> batches;
  StepLoss loss;
  try {
    const kernels::CancellationScope cancellable(end_requested_);
    group_.together([&] { batches = next_batches(state_.step + 1 < config_.train.steps); });
    loss = compute_gradients(batches, state_.step + 1, config_.train, model_, group_);
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
  update_and_watch_weights(learning_rate, norm);
  count_time(batches, loss.durations);
  finish_step(loss, {.learning_rate = learning_rate, .gradient_norm = norm});
  return StepEnd::done;
}

/// ahead  whether those of the next step are prepared meanwhile
std::vector<Batch> Trainer::next_batches(bool ahead) {
  const PartTimer timer(time_use_, TimePart::batches, "batch preparation");
  StepBatches step = batches_.take(state_.position, ahead);
  state_.position = step.next;
  return std::move(step.batches);
}

BatchStatistics Trainer::measure_epoch() { return batches_.measure(state_.position.epoch); }

BatchRules Trainer::rules(std::uint64_t epoch) const {
  return batch_rules(config_, corpus_.target_vocabulary.size(), epoch);
}

double Trainer::gradient_norm() {
  const PartTimer timer(time_use_, TimePart::optimizer, "gradient norm");
  return shards_.gradient_norm();
}

void Trainer::update_weights(double learning_rate, double gradient_norm) {
  const PartTimer timer(time_use_, TimePart::optimizer, "optimizer step");
  const double scale = clip_factor(gradient_norm, config_.train.clip_norm);
  shards_.update([&] { optimizer_->step(learning_rate, scale); });
  model_.parameters.commit_buffers();
  if (average_) average_->update(optimizer_->steps());
}

void Trainer::count_time(const std::vector<Batch>& batches, const StepDurations& durations) {
  time_use_.add(TimePart::forward, durations.forward);
  time_use_.add(TimePart::backward, durations.backward);
  time_use_.add(TimePart::anomaly_checks, durations.anomaly_checks);
  time_use_.add(TimePart::exchange, durations.exchange);
  for (const Batch& batch : batches) time_use_.add(batch);
}

void Trainer::finish_step(const StepLoss& loss, StepReport report) {
  report_ = report;
  group_.note_step(++state_.step);
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
  with_recorder([&](RunRecorder& recorder) { recorder.add_rows(state_.metrics.csv()); });
  record_time_use(false);
  progress_.metrics(metrics);
}

/// The share of this process in validation and decoding, which an interruption cancels.
WorkShare Trainer::work_share() {
  WorkShare share{.index = group_.rank(), .count = group_.size()};
  if (group_.size() == 1) return share;
  share.all_gather = [this](const std::function<std::string()>& work) {
    return group_.all_gather([&] {
      const kernels::CancellationScope cancellable(end_requested_);
      kernels::throw_if_cancelled();
      return work();
    });
  };
  return share;
}

/// Calls `work` while the parameters of all processes have the values of their averages, if there
/// are any.
void Trainer::with_averaged_weights(const std::function<void()>& work) {
  if (!average_) return work();
  const auto swap = [this] { shards_.update([this] { average_->swap(); }); };
  swap();
  try {
    work();
  } catch (const kernels::Cancelled&) {  // in all processes
    swap();
    throw;
  } catch (...) {  // ends all processes; the others cannot swap any more
    if (group_.size() == 1) swap();
    throw;
  }
  swap();
}

Scores Trainer::validate() {
  Scores scores;
  with_averaged_weights([&] { scores = score_validation_set(); });
  return scores;
}

/// Scores the validation set with the weights that the parameters have.
Scores Trainer::score_validation_set() {
  const PartTimer timer(time_use_, TimePart::validation, "validation and decoding");
  const WorkShare share = work_share();
  // Of several processes one alone must not give up the evaluation, but all in all_gather().
  const kernels::CancellationScope cancellable(group_.size() == 1 ? end_requested_ : nullptr);
  share.all_gather([] {
    kernels::throw_if_cancelled();
    return std::string();
  });
  const EvaluationSet set{.examples = corpus_.validation,
                          .target_texts = corpus_.validation_lines.target_texts,
                          .codec = codec_,
                          .share = share};
  return find_task(config_).evaluate(model_, config_, rules(0), set,
                                     config_.train.exact_match_sequences);
}

/// Tells the progress of a validation.
void Trainer::report_validation(const Scores& scores, bool best) const {
  ValidationReport report{.step = state_.step,
                          .text = find_task(config_).format_scores(scores, config_),
                          .scores = scores.others,
                          .best = best};
  report.scores["loss"] = scores.loss;
  report.scores["perplexity"] = scores.perplexity;
  report.scores["token_accuracy"] = scores.token_accuracy;
  if (state_.best_step) report_best();
  progress_.validation(report);
}

void Trainer::report_best() const {
  progress_.best({.metric = config_.train.best_metric, .value = state_.best_value});
}

bool Trainer::is_best(double value) const {
  if (!state_.best_step) return std::isfinite(value);
  return is_better(config_.train.best_metric, value, state_.best_value);
}

/// Returns whether the validation is one of the train.keep_best best ones.
/// throws  kernels::Cancelled, nothing is changed then.
bool Trainer::validate_and_compare() {
  if (corpus_.validation.empty()) return false;
  Scores scores;
  std::vector<LayerAttention> attention;
  group_.together([&] {
    with_averaged_weights([&] {
      scores = score_validation_set();
      attention = recorded_attention();
    });
  });
  const double value = score_value(scores, config_.train.best_metric);
  const bool best = is_best(value);
  ++state_.validations_since_best;
  if (best) {
    state_.best_value = value;
    state_.best_step = state_.step;
    state_.validations_since_best = 0;
  }
  // A validation that is due stays when a run continues.
  if (state_.before_end && due(config_.train.validate_every)) {
    state_.before_end->best_value = state_.best_value;
    state_.before_end->best_step = state_.best_step;
  }
  state_.metrics.add_validation(state_.step, epoch_, scores);
  record(scores, attention);
  report_validation(scores, best);
  for (const ShownExample& sample : scores.samples) {
    progress_.message(fmt::format("  source     {}\n  reference  {}\n  output     {}",
                                  escaped(sample.input), escaped(sample.expected),
                                  escaped(sample.output)));
  }
  return best || is_further_best(state_.step, state_.metrics.csv(), config_.train);
}

// ---- The recording.

/// Whether the step is followed by a validation.
bool Trainer::records_after_step(std::uint64_t step) const {
  const bool is_validated = step % config_.train.validate_every == 0 || step >= config_.train.steps;
  return is_validated && !corpus_.validation.empty();
}

/// update_weights(), observed if a record of the step follows.
void Trainer::update_and_watch_weights(double learning_rate, double gradient_norm) {
  const bool is_recorded = records_after_step(state_.step + 1);
  if (is_recorded) {
    shards_.gather_gradients();  // rank 0 records their statistics
    with_recorder([](RunRecorder& recorder) { recorder.before_update(); });
  }
  update_weights(learning_rate, gradient_norm);
  if (is_recorded) with_recorder([](RunRecorder& recorder) { recorder.after_update(); });
}

/// Calls `action` if the run is recorded. A failure changes nothing in the run: a record is missing
/// or the recording ends, with a warning.
void Trainer::with_recorder(const std::function<void(RunRecorder&)>& action) {
  if (!recorder_) return;
  const PartTimer timer(time_use_, TimePart::recording, "recording");
  try {
    action(*recorder_);
  } catch (const std::bad_alloc&) {
    progress_.message("warning: not recorded: not enough memory");
  } catch (const std::exception& error) {
    progress_.message(fmt::format("warning: the recording ends: {}", error.what()));
    recorder_.reset();
  }
  if (recorder_) warn_of_recording();
}

void Trainer::record(const Scores& scores, const std::vector<LayerAttention>& attention) {
  with_recorder([&](RunRecorder& recorder) {
    recorder.add_rows(state_.metrics.csv());
    recorder.add(state_.step, scores.samples, attention);
  });
}

/// The attention weights that record() writes, of the weights that the parameters have.
std::vector<LayerAttention> Trainer::recorded_attention() {
  std::vector<LayerAttention> attention;
  with_recorder([&](RunRecorder& recorder) {
    if (recorder.shows_attention() && !attention_problem_) attention = attention_of_example();
  });
  return attention;
}

/// The attention weights on a held-out example. What cannot be shown causes one warning.
std::vector<LayerAttention> Trainer::attention_of_example() try {
  auto samples =
      attention_samples(model_, config_, codec_, corpus_, {.examples = 1, .most_tokens = 65});
  if (samples.empty()) return {};
  for (const std::string& note : samples.front().notes) {
    if (!attention_notes_.insert(note).second) continue;
    progress_.message(fmt::format("warning: attention: {}", note));
  }
  return std::move(samples.front().layers);
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception& error) {
  attention_problem_ = true;
  progress_.message(fmt::format("warning: attention is not recorded: {}", error.what()));
  return {};
}

/// Records it once the process has computed a step.
void Trainer::record_time_use(bool at_once) {
  if (time_use_.seconds(TimePart::forward) == 0.0) return;
  with_recorder([&](RunRecorder& recorder) {
    recorder.add_time_use(state_.step, time_use_, at_once);
  });
}

void Trainer::warn_of_recording() {
  if (const auto problem = recorder_->take_problem()) progress_.message("warning: " + *problem);
}

// ---- Reports during the run.

/// The report at the end of a run is written after its last save.
bool Trainer::report_is_due() const {
  const TrainOptions& train = config_.train;
  if (train.report_every == 0 || finished() || !due(train.validate_every)) return false;
  return state_.step / train.validate_every % train.report_every == 0;
}

void Trainer::report() {
  finish_save();  // the report shows the newest checkpoint
  record_time_use(true);
  const PartTimer timer(time_use_, TimePart::reports, "report");
  const Clock::time_point started = Clock::now();
  write_report_();
  progress_.exclude(Clock::now() - started);
}

// ---- The rows that only the end of a run adds.

/// Keeps what the rows change; called before the first of them.
void Trainer::begin_end_rows() {
  const std::uint64_t bytes = state_.metrics.csv().size();
  if (state_.before_end) return;
  state_.before_end = BeforeEnd{.running = state_.running,
                                .best_value = state_.best_value,
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
  state_.best_value = before.best_value;
  state_.best_step = before.best_step;
  state_.metrics.erase(before.metrics_begin, before.metrics_end);
}

}  // namespace tapestry
