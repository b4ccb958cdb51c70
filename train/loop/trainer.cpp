// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <new>
#include <string_view>
#include <utility>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "data/io/durable_file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/checkpoint/training_state.h"
#include "train/loop/final_average.h"
#include "train/loop/non_finite.h"
#include "train/report/report_data.h"
#include "train/system/message.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

std::optional<RunEnd> reason_to_end(const Interruptions& interruptions,
                                    const TrainingState& state) {
  const RunSignals* signals = interruptions.signals;
  const bool time_is_up = signals != nullptr && signals->time_is_up();
  if (time_is_up || interruptions.time.is_up(Clock::now())) return RunEnd::time;
  if (signals != nullptr && signals->stop() != 0) return RunEnd::signal;
  const bool is_reached = interruptions.last_step && state.step >= *interruptions.last_step;
  if (is_reached && !state.validation_pending) return RunEnd::last_step;
  return std::nullopt;
}

/// The reason why a run with steps left ends now. All processes get the reason of the lowest rank
/// that has a reason, or nullopt if no process has a reason. A signal that another process received
/// counts as received by this process.
std::optional<RunEnd> agree_to_end(const Interruptions& interruptions, const TrainingState& state,
                                   ProcessGroup& group) {
  const auto own = reason_to_end(interruptions, state);
  if (group.size() == 1) return own;
  const auto reasons = group.all_gather([&] {
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
  const auto end = static_cast<RunEnd>(reason.get<int>());
  if (end == RunEnd::signal && interruptions.signals != nullptr) {
    interruptions.signals->stop_by(reason.get<int>());
  }
  return end;
}

/// The part of a loss that label smoothing adds to the cross entropy; exactly 0 without smoothing,
/// although the loss and the cross entropy differ by rounding.
double smoothing_part(double loss, double cross_entropy, const Config& config) {
  return config.train.label_smoothing > 0 ? loss - cross_entropy : 0.0;
}

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
  const Config before = saved_config(snapshot);
  computer_.resume(snapshot);
  // A finished run is not saved again, so that changes of train.average_last or train.best_metric
  // do not delete checkpoints that the saved config keeps.
  saver_.mark_as_saved(kept_checkpoints(state_, before.train));
  const bool metric_changed = before.train.best_metric != config_.train.best_metric ||
                              (config_.train.best_metric == "bleu" &&
                               before.train.bleu_tokenizer != config_.train.bleu_tokenizer);
  // Validations before a change of the metric do not count for train.patience.
  if (metric_changed) state_.validations_since_best = 0;
  if (!finished()) state_.revert_end_rows();
  if (metric_changed) {
    state_.best_value = std::numeric_limits<double>::infinity();
    state_.best_step.reset();
  }
}

void Trainer::record_to(const std::filesystem::path& folder) {
  // The validation of the last step is dropped if it is repeated or was due only at the end.
  const bool repeated =
      state_.validation_pending || !(finished() || is_validated_after(state_.step));
  const std::uint64_t kept = repeated && state_.step > 0 ? state_.step - 1 : state_.step;
  recorder_.start(folder, kept);
}

void Trainer::add_to_history(const std::string& event) {
  state_.history += fmt::format("step {}: {}\n", state_.step, event);
}

bool Trainer::finished() const { return state_.step >= config_.train.steps || out_of_patience(); }

std::string Trainer::best_in_words() const {
  if (!state_.best_step) return "";
  const std::string& metric = config_.train.best_metric;
  const bool never_scored = metric != "loss" && state_.best_value == 0.0;
  return fmt::format("best validation: {} {:.4f} at step {}{}", metric, state_.best_value,
                     format_count(*state_.best_step),
                     never_scored
                         ? "; no validation scored more than 0, so this is only the first: "
                           "choose another train.best_metric, such as loss"
                         : "");
}

bool Trainer::out_of_patience() const {
  return config_.train.patience > 0 && state_.validations_since_best >= config_.train.patience;
}

bool Trainer::is_validated_after(std::uint64_t step) const {
  const bool is_due = step % config_.train.validate_every == 0 || step >= config_.train.steps;
  return is_due && !corpus_.validation.empty();
}

/// The epoch of the last step, counted from 1. It follows from the position of the next batch.
std::uint64_t Trainer::epoch_of_last_step() const {
  const std::uint64_t per_epoch = computer_.batches_per_epoch();
  const std::uint64_t next = state_.position.epoch * per_epoch + state_.position.batch;
  return (next - std::min<std::uint64_t>(next, config_.train.accumulate)) / per_epoch + 1;
}

// ---- The run.

RunEnd Trainer::run(Interruptions interruptions) try {
  RunSignals* const signals = interruptions.signals;
  end_requested_ = signals != nullptr ? &signals->end_requested() : nullptr;
  if (config_.train.on_nan == OnNan::rollback && !saver_.saved_step() && !finished()) {
    save_as_scheduled();
  }
  if (state_.best_step) validator_.report_best(progress_);
  std::optional<RunEnd> stop;
  while (state_.validation_pending || !finished()) {
    stop = find_interruption(interruptions);
    if (stop) break;
    const Clock::time_point started = Clock::now();
    try {
      if (state_.validation_pending) {
        finish_interrupted_iteration();
      } else if (train_step()) {
        finish_iteration();
      }
    } catch (const kernels::Cancelled&) {
      continue;
    }
    if (group_.any_process(signals != nullptr && signals->take_save_request())) {
      saver_.save_on_request(finished());
    }
    interruptions.time.add_iteration(Clock::now() - started);
  }
  const bool is_complete = finish_run();
  if (!is_complete) stop = agree_to_end(interruptions, state_, group_);
  return stop.value_or(RunEnd::finished);
} catch (...) {
  saver_.finish_after_error();
  throw;
}

/// Whether the run ends before its next step, early enough for a save.
std::optional<RunEnd> Trainer::find_interruption(Interruptions& interruptions) {
  saver_.collect();
  interruptions.time.update_save_time(saver_.max_save_time(), saver_.is_in_flight());
  const auto deadline = interruptions.time.save_deadline();
  if (interruptions.signals != nullptr && deadline) interruptions.signals->end_at(*deadline);
  return agree_to_end(interruptions, state_, group_);
}

/// Validates and saves if this is due after a step. Always validates the last step.
void Trainer::finish_iteration() {
  state_.validation_pending = true;  // so that a cancelled validation is repeated
  bool among_best = false;
  if (is_due(config_.train.validate_every)) {
    among_best = validate_and_compare();
  } else if (is_last_step()) {
    validate_at_end();
  }
  state_.validation_pending = false;
  if (among_best || is_due(config_.train.save_every)) save_as_scheduled();
  if (report_is_due()) report();
}

/// Finishes an iteration that was interrupted in an earlier process.
void Trainer::finish_interrupted_iteration() {
  epoch_ = epoch_of_last_step();
  saver_.mark_as_unsaved();  // finish_iteration() still changes the state of this step
  finish_iteration();
  saver_.finish();
  if (saver_.saved_step() != state_.step) saver_.save(is_last_step());
}

/// Saves the last state of this process and, if the run is finished, writes its average and report.
/// Returns false if a process was interrupted while averaging.
bool Trainer::finish_run() {
  saver_.complete();
  recorder_.add_time(true);
  const bool is_complete =
      !finished() || state_.validation_pending || !group_.any_process(!average_last_checkpoints());
  if (config_.train.report_every > 0 && finished()) {
    report();
    recorder_.add_time(true);
  }
  return is_complete;
}

// ---- A step.

/// Returns whether a step was done or skipped; false if the run was rolled back instead.
bool Trainer::train_step() {
  epoch_ = state_.position.epoch + 1;
  RunStep step;
  try {
    const kernels::CancellationScope cancellable(end_requested_);
    step = computer_.next_step(state_.step + 1 < config_.train.steps);
    computer_.compute(step);
  } catch (const AnomalyError&) {  // with train.detect_anomaly
    // handle_non_finite() locates the operation again.
    return handle_non_finite("a value is not finite", step);
  }
  if (!std::isfinite(step.loss.mean)) {
    return handle_non_finite("the loss is " + value_text(step.loss.mean), step);
  }
  if (!std::isfinite(step.gradient_norm)) {
    return handle_non_finite("the norm of the gradient is " + value_text(step.gradient_norm), step);
  }
  apply_and_record(step);
  report_ = {.learning_rate = step.learning_rate, .gradient_norm = step.gradient_norm};
  if (config_.train.on_nan != OnNan::rollback) state_.nan_steps = 0;
  const auto tokens = static_cast<double>(step.loss.target_tokens);
  progress_.step(
      state_.step, step.loss.target_tokens,
      step.loss.mean - smoothing_part(step.loss.mean, step.loss.nll_sum / tokens, config_));
  check_divergence(step);
  recorder_.add_digests();
  log_if_due();
  return true;
}

/// Applies the step, and records weights and gradients if a validation follows.
void Trainer::apply_and_record(const RunStep& step) {
  const bool is_recorded = is_validated_after(step.number);
  if (is_recorded) {
    computer_.shards().gather_gradients();  // rank 0 records statistics of the gradients
    recorder_.before_update();
  }
  computer_.apply(step);
  if (is_recorded) recorder_.after_update();
}

/// throws  NumericError if the run has diverged with this step.
void Trainer::check_divergence(const RunStep& step) {
  const double guessing = std::log(static_cast<double>(network_sizes(config_, corpus_).target));
  if (!state_.divergence.add(step.loss.mean, guessing, config_.train.divergence_window)) return;
  saver_.finish();
  throw NumericError(
      fmt::format("step {}: the run has diverged: the mean loss of {} steps was {:.4g} at its best "
                  "and is now {:.4g}; this state is not saved, {}",
                  state_.step, config_.train.divergence_window, state_.divergence.best_mean(),
                  state_.divergence.last_mean(), saver_.describe_newest()),
      std::string(smaller_steps_hint) + "; train.divergence_window=0 disables the check");
}

// ---- Actions after a step.

/// The last step is always logged.
void Trainer::log_if_due() {
  if (is_due(config_.train.log_every)) {
    log();
  } else if (is_last_step()) {
    state_.add_end_rows([this] { log(); });
  }
}

void Trainer::log() {
  const auto tokens = static_cast<double>(state_.running.tokens);
  const double loss = state_.running.loss_sum / tokens;
  const double cross_entropy = state_.running.nll_sum / tokens;
  const TrainMetrics metrics{.step = state_.step,
                             .epoch = epoch_,
                             .loss = loss,
                             .smoothing = smoothing_part(loss, cross_entropy, config_),
                             .perplexity = std::exp(cross_entropy),
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

/// Returns whether this is one of the train.keep_best best validations.
/// throws  kernels::Cancelled; the state is then unchanged.
bool Trainer::validate_and_compare() {
  if (corpus_.validation.empty()) return false;
  Scores scores;
  group_.together([&] { scores = validate(); });
  const std::string& metric = config_.train.best_metric;
  const bool best = state_.compare_validation(metric, score_value(scores, metric),
                                              is_due(config_.train.validate_every));
  state_.metrics.add_validation(state_.step, epoch_, scores);
  recorder_.add_validation(scores);
  validator_.report(scores, best, progress_);
  return best || is_further_best(state_.step, state_.metrics.csv(), config_.train);
}

/// Validates the last step although no validation is due; train.patience does not count it.
void Trainer::validate_at_end() {
  state_.add_end_rows([this] {
    const std::uint64_t counted = state_.validations_since_best;
    validate_and_compare();
    state_.validations_since_best = counted;
  });
}

/// With train.on_nan: rollback, a non-finite state is rolled back instead.
void Trainer::save_as_scheduled() {
  saver_.finish();
  if (config_.train.on_nan == OnNan::rollback) {
    if (const auto found =
            find_non_finite_state(model_.parameters, computer_.parts().optimizer, group_)) {
      count_non_finite(fmt::format("step {}: {}", state_.step, *found));
      return roll_back(fmt::format("{} at step {}", *found, state_.step));
    }
  }
  saver_.save_as_scheduled(finished());
}

/// The report at the end of a run is written after its last save.
bool Trainer::report_is_due() const {
  const TrainOptions& train = config_.train;
  if (train.report_every == 0 || finished() || !is_due(train.validate_every)) return false;
  return state_.step / train.validate_every % train.report_every == 0;
}

void Trainer::report() {
  saver_.finish();  // the report shows the newest checkpoint
  recorder_.add_time(true);
  if (!group_.is_rank_0()) return;
  const PartTimer timer(time_use_, TimePart::reports, "report");
  const Clock::time_point started = Clock::now();
  try {
    const kernels::CancellationScope cancellable(end_requested_);
    write_report(directory_,
                 {.corpus = corpus_, .metrics = state_.metrics.csv(), .finished = finished()});
  } catch (const kernels::Cancelled&) {  // the run ends
  } catch (const std::bad_alloc&) {
    progress_.message("warning: report not written: not enough memory");
  } catch (const std::exception& error) {
    progress_.message(fmt::format("warning: report not written: {}", error.what()));
  }
  progress_.exclude(Clock::now() - started);
}

/// Averages the last checkpoints of the finished run, if train.average_last is set. Returns false
/// if a signal or the time limit interrupted the averaging in this process.
bool Trainer::average_last_checkpoints() {
  if (config_.train.average_last == 0) return true;
  bool cancelled = false;
  group_.on_rank_0([&] {
    constexpr const char* failed = "warning: the last checkpoints were not averaged";
    try {
      const kernels::CancellationScope cancellable(end_requested_);
      write_final_average(directory_, config_, corpus_, state_.step, progress_);
    } catch (const kernels::Cancelled&) {  // the run ends
      cancelled = true;
      progress_.message(fmt::format("{}: resume the run to average them", failed));
    } catch (const std::bad_alloc&) {  // the run itself is complete
      progress_.message(
          fmt::format("{}: not enough memory; resume the run to average them", failed));
    } catch (const OutputError& error) {
      progress_.message(fmt::format("{}: {}; {}, then resume the run to average them", failed,
                                    error.what(), error.hint()));
    }
  });
  return !cancelled;
}

// ---- Non-finite values.

/// Returns what train_step() returns: false after a rollback, otherwise true.
bool Trainer::handle_non_finite(const std::string& found, const RunStep& step) {
  saver_.finish();  // a rollback may need the last checkpoint
  const std::string finding = group_.broadcast([&] { return store_non_finite(found, step); });
  count_non_finite(fmt::format("step {}: {}\n  the weights are from step {}", step.number, finding,
                               state_.step));
  if (config_.train.on_nan == OnNan::rollback) {
    state_.position = step.next;
    roll_back(fmt::format("{} at step {}", found, step.number));
    return false;
  }
  add_to_history(fmt::format("{} at step {}, which is skipped", found, step.number));
  computer_.skip(step);
  recorder_.add_digests();
  return true;
}

namespace {

/// Joins the lines of a finding with "; ".
std::string in_one_line(std::string finding) {
  constexpr std::string_view separator = "\n  ";
  for (std::size_t at = 0; (at = finding.find(separator, at)) != finding.npos;) {
    finding.replace(at, separator.size(), "; ");
  }
  return finding;
}

}  // namespace

/// finding  lines; the second and later lines are indented by two spaces
/// throws  NumericError with train.on_nan: stop, or after more than train.max_nan_steps consecutive
/// non-finite steps.
void Trainer::count_non_finite(const std::string& finding) {
  ++state_.nan_steps;
  const std::size_t max_steps = config_.train.max_nan_steps;
  const std::string hint = non_finite_hint(state_.step);
  if (config_.train.on_nan == OnNan::stop) {
    throw NumericError(finding, hint + "; train.on_nan=skip skips such a step");
  }
  if (state_.nan_steps > max_steps) {
    throw NumericError(fmt::format("{}\n  {} consecutive steps, train.max_nan_steps is {}", finding,
                                   state_.nan_steps, max_steps),
                       hint);
  }
  progress_.message("warning: " + in_one_line(finding));
}

/// Locates the origin of a non-finite value, stores a report in the run directory and returns a
/// description, whose lines after the first are indented by two spaces.
std::string Trainer::store_non_finite(const std::string& found, const RunStep& step) {
  const BatchLoss loss = [&](const Batch& batch, std::size_t index) {
    return computer_.batch_loss(step, batch, index).mean;
  };
  const NonFiniteOrigin origin = find_non_finite_origin(
      loss, corpus_.training(), training_rules(config_, corpus_), step.batches, model_.parameters);
  const auto path = directory_.path() / fmt::format("non-finite-step-{:08}.txt", step.number);
  const std::string report = fmt::format("step {}: {}\n{}", step.number, found,
                                         to_text(origin, corpus_.training(), config_, codec_));
  std::string stored;
  try {
    write_file_durably(path, report, directory_.files());
    stored = fmt::format("\n  see {}", escaped(path.string()));
  } catch (const OutputError& error) {
    stored = fmt::format("\n  not stored: {}", error.what());
  }
  return fmt::format("{}, expected a finite number{}{}", found, in_words(origin, config_), stored);
}

/// Restores a checkpoint, which rank 0 chooses. Training continues with the data after the failed
/// step.
void Trainer::roll_back(const std::string& found) {
  const BatchPosition next_position = state_.position;
  const std::uint64_t consecutive = state_.nan_steps;
  computer_.restore(saver_.read_rollback_target(found));
  group_.require_equal(
      "state after the rollback", [&] { return computer_.state_text(); }, ExitCode::checkpoint);
  state_.revert_end_rows();
  saver_.mark_as_saved();
  state_.position = next_position;
  state_.nan_steps = consecutive;
  add_to_history(fmt::format("rolled back: {}; continues with epoch {}, batch {}", found,
                             next_position.epoch + 1, next_position.batch + 1));
  progress_.rolled_back(state_.step);
  recorder_.drop_later_steps();
  progress_.message(fmt::format("rolled back to step {}", format_count(state_.step)));
}

}  // namespace tapestry
