// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/run_saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/durable_file.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/run_directory.h"
#include "train/checkpoint/training_state.h"
#include "train/loop/non_finite.h"

namespace tapestry {
namespace {

constexpr std::size_t max_failures = 3;  // consecutive failures that end the run

}  // namespace

/// A copy of the state, which a save writes while training continues.
struct RunSaver::Copy {
  std::uint64_t step;
  MetricsTable metrics;
  Retention retention;
  ArrayStore arrays;

  /// Writes the metrics first, so that the run is complete once the last checkpoint is written.
  /// Returns why old checkpoints could not be deleted.
  std::vector<std::string> write(RunDirectory& directory) const {
    directory.require_lock();
    metrics.write(directory.path() / "metrics.csv", directory.files());
    return directory.save(step, arrays, retention);
  }
};

RunSaver::RunSaver(const RunParts& run, ParameterShards& shards, RunDirectory& directory,
                   Progress& progress, ProcessGroup& group, TimeUse& time_use)
    : run_(run),
      shards_(shards),
      directory_(directory),
      progress_(progress),
      group_(group),
      time_use_(time_use) {}

// The checkpoint records its own step as the last scheduled save. This is reverted if writing the
// checkpoint fails. state.nan_steps must not change before finish().
void RunSaver::save_as_scheduled(bool last) {
  finish();
  TrainingState& state = run_.state;
  Save scheduled{.last = last, .scheduled_before = std::exchange(state.scheduled_save, state.step)};
  if (run_.config.train.on_nan == OnNan::rollback) {
    scheduled.nan_steps_before = std::exchange(state.nan_steps, 0);
  }
  begin(scheduled);
}

void RunSaver::save(bool last) { begin({.last = last}); }

void RunSaver::complete() {
  finish();
  if (saved_step_ != run_.state.step) return save(true);
  if (!group_.is_rank_0()) return;
  deletion_problems_ = directory_.delete_old(
      run_.state.step, kept_with_saved_ ? *kept_with_saved_
                                        : kept_checkpoints(run_.state, run_.config.train));
  report_deletion_problems();
}

void RunSaver::save_on_request(bool last) {
  collect();
  if (saved_step_ == run_.state.step) return report_requested_save();
  if (!in_flight_ || in_flight_->step != run_.state.step) {
    begin({.last = last, .requested = true});
  } else {
    in_flight_->requested = true;
  }
}

/// Begins a save; finish() reports its result.
void RunSaver::begin(Save save) {
  finish();
  start(save);
  in_flight_ = save;
  if (!save.in_background) finish();
}

/// Copies the state in rank 0 and starts to write the copy.
void RunSaver::start(Save& save) {
  const PartTimer timer(time_use_, TimePart::saving, "saving");
  require_finite_state();
  const Clock::time_point started = Clock::now();
  save.step = run_.state.step;
  save.is_copied = group_.broadcast([&] { return copy_state(); });
  if (save.is_copied) {
    gather_shards();
    save.in_background = group_.broadcast([&] { return start_writing(save.last); });
  }
  save.copying = Clock::now() - started;
  progress_.exclude(save.copying);
}

void RunSaver::require_finite_state() {
  const auto found = find_non_finite_state(run_.model.parameters, run_.optimizer, group_);
  if (!found) return;
  throw NumericError(fmt::format("step {}: {}; this state is not saved, {}", run_.state.step,
                                 *found, describe_newest()),
                     smaller_steps_hint);
}

/// Copies the state without the shards of other processes. Returns false if there is not enough
/// memory.
bool RunSaver::copy_state() try {
  copy_ = std::make_shared<Copy>(Copy{run_.state.step, run_.state.metrics,
                                      kept_checkpoints(run_.state, run_.config.train),
                                      collect_arrays(run_)});
  return true;
} catch (const std::bad_alloc&) {  // finish() reports the failure
  return false;
}

/// Adds the shards of the other processes to the copy.
void RunSaver::gather_shards() {
  for (const ShardState& state : shard_states(run_)) {
    shards_.gather_state(state.tensors,
                         [&](std::size_t i) { return copy_->arrays.mutable_bytes(state.path(i)); });
  }
}

/// Starts to write the copy. Returns whether writing continues in the background; false if it has
/// ended.
bool RunSaver::start_writing(bool last) {
  const auto write = [this] {
    const auto copy = std::exchange(copy_, nullptr);
    deletion_problems_ = copy->write(directory_);
  };
  if (last) {
    writer_.run_here(write);
    return false;
  }
  if (writer_.start(write)) return true;
  if (!std::exchange(warned_of_thread_, true)) {
    progress_.message(
        "warning: training waits while checkpoints are written, since no background thread could "
        "be started (ulimit -u, ulimit -v)");
  }
  return false;
}

void RunSaver::collect() {
  if (in_flight_ && group_.any_process(group_.is_rank_0() && writer_.has_ended())) {
    finish();
  }
}

void RunSaver::finish() {
  if (!in_flight_) return;
  const PartTimer timer(time_use_, TimePart::saving, "waiting for a save");
  const Clock::time_point started = Clock::now();
  const Save save = *std::exchange(in_flight_, std::nullopt);
  const bool is_written = group_.broadcast([&] { return end_writing(save); });
  max_save_time_ = std::max(max_save_time_, elapsed_time(save));
  if (is_written) {
    report_saved(save);
  } else {
    if (save.scheduled_before) run_.state.scheduled_save = *save.scheduled_before;
    if (save.nan_steps_before) run_.state.nan_steps = *save.nan_steps_before;
  }
  progress_.exclude(Clock::now() - started);
}

/// Waits until the save ends, and returns whether it has succeeded. Counts a failure.
bool RunSaver::end_writing(const Save& save) try {
  if (!save.is_copied) throw std::bad_alloc();
  writer_.finish();
  failures_ = 0;
  return true;
} catch (const std::exception&) {
  count_failure(save.last);
  return false;
}

/// Counts the failure whose exception is being handled: an OutputError or a std::bad_alloc.
///
/// throws  OutputError if the failure ends the run; std::bad_alloc, after a message with the same
///         content; any other exception that is being handled.
void RunSaver::count_failure(bool last) {
  constexpr const char* no_memory = "no memory for a checkpoint";
  ++failures_;
  const bool ends_run = last || failures_ >= max_failures;
  try {
    throw;
  } catch (const OutputError& error) {
    if (ends_run) {
      throw OutputError(fmt::format("{}; {}", error.what(), describe_end()),
                        end_hint(error.hint()));
    }
    warn_of_failure(error.what());
  } catch (const std::bad_alloc&) {
    if (ends_run) {
      progress_.message(
          fmt::format("not saved: {}; {}; {}", no_memory, describe_end(), end_hint("")));
      throw;
    }
    warn_of_failure(no_memory);
  }
}

void RunSaver::warn_of_failure(const std::string& failure) {
  progress_.message(
      fmt::format("warning: not saved: {}; training continues ({} failed save{} in a row; the run "
                  "stops after {})",
                  failure, failures_, failures_ == 1 ? "" : "s", max_failures));
}

/// States why and at which step the run ends, and its newest checkpoint.
std::string RunSaver::describe_end() const {
  const bool third = failures_ >= max_failures;
  const std::string reason =
      third ? fmt::format("{} saves in a row have failed", failures_) : "its last save has failed";
  const std::string newest = newest_checkpoint();
  return fmt::format(
      "the run ends at step {}, since {}; {}", format_count(run_.state.step), reason,
      newest.empty() ? "it has no checkpoint" : "its newest checkpoint is " + newest);
}

/// remedy  how to prevent the failure; may be empty
std::string RunSaver::end_hint(const std::string& remedy) const {
  const std::string again = newest_checkpoint().empty()
                                ? "start the run again"
                                : fmt::format("resume with `{} train --resume {}`", program_name(),
                                              format_argument(directory_.path().string()));
  return remedy.empty() ? again : fmt::format("{}, then {}", remedy, again);
}

/// The path of the newest checkpoint up to the current step; empty without a checkpoint.
std::string RunSaver::newest_checkpoint() const try {
  std::vector<std::uint64_t> steps = directory_.steps();
  std::erase_if(steps, [&](std::uint64_t other) { return other > run_.state.step; });
  return steps.empty() ? "" : directory_.checkpoint_path(steps.back()).string();
} catch (const CheckpointError&) {  // the folder cannot be listed
  return "";
}

void RunSaver::report_saved(const Save& save) {
  saved_step_ = save.step;
  kept_with_saved_.reset();
  report_deletion_problems();
  progress_.checkpoint(save.step, directory_.checkpoint_path(save.step).string());
  if (save.requested) report_requested_save();
}

void RunSaver::report_deletion_problems() {
  for (const std::string& problem : std::exchange(deletion_problems_, {})) {
    if (!reported_problems_.insert(problem).second) continue;
    progress_.message("warning: old checkpoint not deleted: " + problem);
  }
}

void RunSaver::report_requested_save() {
  progress_.message(
      fmt::format("saved at step {} (requested by a signal)", format_count(*saved_step_)));
}

void RunSaver::finish_after_error() try {
  if (!in_flight_) return;
  const Save save = *std::exchange(in_flight_, std::nullopt);
  if (!group_.is_rank_0()) return;
  try {
    writer_.finish();
    report_saved(save);
  } catch (const UserError& error) {
    progress_.message(fmt::format("warning: not saved: {}", error.what()));
  }
} catch (const std::exception&) {  // the run already ends with a more important error
}

ArrayStore RunSaver::read_rollback_target(const std::string& found) const {
  ArrayStore target;
  const std::uint64_t chosen = group_.broadcast([&] {
    target = choose_rollback_target(found);
    return tapestry::saved_step(target);
  });
  group_.together([&] {
    if (group_.is_rank_0()) return;
    target = await_checkpoint_of_run(directory_, chosen, group_.timeout());
  });
  return target;
}

ArrayStore RunSaver::choose_rollback_target(const std::string& found) const {
  try {
    return read_checkpoint_of_run(directory_, run_.state.scheduled_save);
  } catch (const DamagedCheckpoint& damage) {
    progress_.message(fmt::format("warning: {}; another checkpoint is used", damage.what()));
  } catch (const CheckpointError&) {
  }
  std::string reason = "there is no checkpoint to go back to";
  try {
    if (auto newest = read_newest_of_run(directory_)) return std::move(newest->arrays);
  } catch (const CheckpointError& error) {
    reason = error.what();
  }
  throw NumericError(fmt::format("{}; {}", found, reason), smaller_steps_hint);
}

RunSaver::Clock::duration RunSaver::max_save_time() const {
  if (!in_flight_) return max_save_time_;
  return std::max(max_save_time_, elapsed_time(*in_flight_));
}

/// The duration of a save so far; `copying` if it was not written in the background.
RunSaver::Clock::duration RunSaver::elapsed_time(const Save& save) const {
  return save.copying + (save.in_background ? writer_.time() : Clock::duration{0});
}

std::string RunSaver::describe_newest() const {
  return saved_step_ ? fmt::format("the newest checkpoint is from step {}", *saved_step_)
                     : "there is no checkpoint yet";
}

std::uint64_t RunSaver::checkpoint_bytes() const {
  const Parameters& parameters = run_.model.parameters;
  std::uint64_t values = parameters.num_values();
  for (const NamedTensor& buffer : parameters.buffers()) values += buffer.tensor.size();
  const std::size_t kinds = run_.optimizer.state().size() / parameters.list().size();
  values += (kinds + (run_.average != nullptr ? 1 : 0)) * parameters.num_values();
  return values * bytes_per_element(run_.config.train.dtype);
}

}  // namespace tapestry
