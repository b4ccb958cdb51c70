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

/// Data that a save writes: copies, since training continues while they are written.
struct SavedFiles {
  std::uint64_t step;
  MetricsTable metrics;
  Retention retention;
  ArrayStore snapshot;
};

/// Writes the metrics first, so that the run is complete once the last checkpoint is written.
/// Returns why old checkpoints could not be deleted.
std::vector<std::string> write_files(const SavedFiles& files, RunDirectory& directory) {
  directory.require_lock();
  files.metrics.write(directory.path() / "metrics.csv", directory.files());
  return directory.save(files.step, files.snapshot, files.retention);
}

}  // namespace

RunSaver::RunSaver(const RunParts& run, ParameterShards& shards, RunDirectory& directory,
                   Progress& progress, ProcessGroup& group, TimeUse& time_use)
    : run_(run),
      shards_(shards),
      directory_(directory),
      progress_(progress),
      group_(group),
      time_use_(time_use),
      attempts_(progress, directory) {}

// The checkpoint records its own step as the last scheduled save; reverted if writing it fails.
// Until that is known, nothing else changes the number of steps that are not finite.
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

void RunSaver::save_on_request(bool last) {
  collect();
  if (saved_step_ == run_.state.step) return report_requested_save();
  if (!in_flight_ || in_flight_->step != run_.state.step) {
    begin({.last = last, .requested = true});
  } else {
    in_flight_->requested = true;
  }
}

/// Begins to write a checkpoint; finish() reports how that ends.
void RunSaver::begin(Save save) {
  finish();
  copy_state(save);
  in_flight_ = save;
  if (!save.in_background) finish();
}

/// Copies what a save writes, and begins to write it.
void RunSaver::copy_state(Save& save) {
  const PartTimer timer(time_use_, TimePart::saving, "saving");
  TrainingState& state = run_.state;
  if (const auto found = find_non_finite_state(run_.model.parameters, run_.optimizer, group_)) {
    throw NumericError(fmt::format("step {}: {}; this state is not saved, {}", state.step, *found,
                                   describe_newest()),
                       smaller_steps_hint);
  }
  const Clock::time_point started = Clock::now();
  const std::function<ArrayStore()> snapshot = gather_arrays();
  const std::string answer = group_.broadcast(
      [&] { return std::string(begin_writing(snapshot, save.last) ? "in the background" : ""); });
  save.step = state.step;
  save.copying = Clock::now() - started;
  progress_.exclude(save.copying);
  save.in_background = !answer.empty();
}

/// Copies the data of a save and begins to write it. Returns whether writing continues in the
/// background; if not, it has ended.
bool RunSaver::begin_writing(const std::function<ArrayStore()>& snapshot, bool last) {
  std::function<void()> write = [] { throw std::bad_alloc(); };
  bool in_background = false;
  try {
    auto files = std::make_shared<const SavedFiles>(
        SavedFiles{run_.state.step, run_.state.metrics,
                   kept_checkpoints(run_.state, run_.config.train), snapshot()});
    write = [this, files = std::move(files)] { undeleted_ = write_files(*files, directory_); };
    in_background = !last;
  } catch (const std::bad_alloc&) {  // finish() reports it
  }
  if (!in_background) {
    writer_.do_here(std::move(write));
    return false;
  }
  if (writer_.start(std::move(write))) return true;
  if (!std::exchange(warned_of_thread_, true)) {
    progress_.message(
        "warning: training waits while checkpoints are written, since the system gives no thread "
        "for it (ulimit -u, ulimit -v)");
  }
  return false;
}

/// A function that returns the snapshot of the state of all processes in rank 0, or throws what was
/// thrown when the memory for the state of the other processes was allocated. A group of one
/// process makes the snapshot when the function is called.
std::function<ArrayStore()> RunSaver::gather_arrays() {
  if (group_.size() == 1) return [this] { return collect_arrays(run_); };
  auto gathered = std::make_shared<ArrayStore>();
  std::exception_ptr problem;
  const std::string answer = group_.broadcast([&] {
    try {
      *gathered = collect_arrays(run_);
    } catch (const std::bad_alloc&) {
      problem = std::current_exception();
    }
    return std::string(problem ? "" : "ready");
  });
  if (answer == "ready") {
    for (const ShardState& state : shard_states(run_)) {
      shards_.gather_state(state.tensors,
                           [&](std::size_t i) { return gathered->mutable_bytes(state.path(i)); });
    }
  }
  return [gathered, problem] {
    if (problem) std::rethrow_exception(problem);
    return std::move(*gathered);
  };
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
  const std::string answer = group_.broadcast([&] {
    const bool written = attempts_.attempt([&] { writer_.finish(); }, run_.state.step, save.last);
    return std::string(written ? "saved" : "");
  });
  longest_ = std::max(longest_, elapsed_time(save));
  if (answer == "saved") {
    report_saved(save);
  } else {
    if (save.scheduled_before) run_.state.scheduled_save = *save.scheduled_before;
    if (save.nan_steps_before) run_.state.nan_steps = *save.nan_steps_before;
  }
  progress_.exclude(Clock::now() - started);
}

void RunSaver::report_saved(const Save& save) {
  saved_step_ = save.step;
  for (const std::string& problem : std::exchange(undeleted_, {})) {
    if (!not_deleted_.insert(problem).second) continue;
    progress_.message("warning: old checkpoint not deleted: " + problem);
  }
  progress_.checkpoint(save.step, directory_.checkpoint_path(save.step).string());
  if (save.requested) report_requested_save();
}

void RunSaver::report_requested_save() {
  progress_.message(
      fmt::format("saved at step {}, as a signal requested", format_count(*saved_step_)));
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
} catch (const std::exception&) {  // the error that ends the run is what matters
}

ArrayStore RunSaver::read_rollback_target(const std::string& found) const {
  ArrayStore target;
  const std::string chosen = group_.broadcast([&] {
    target = choose_rollback_target(found);
    return std::to_string(tapestry::saved_step(target));
  });
  group_.together([&] {
    if (group_.is_rank_0()) return;
    target = await_checkpoint_of_run(directory_, std::stoull(chosen), group_.timeout());
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

RunSaver::Clock::duration RunSaver::longest() const {
  if (!in_flight_) return longest_;
  return std::max(longest_, elapsed_time(*in_flight_));
}

/// How long a save has taken up to now; if it was not written in the background, `copying` is all.
RunSaver::Clock::duration RunSaver::elapsed_time(const Save& save) const {
  return save.copying + (save.in_background ? writer_.time() : Clock::duration{0});
}

std::string RunSaver::describe_newest() const {
  return saved_step_ ? fmt::format("the newest checkpoint is of step {}", *saved_step_)
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

bool SaveAttempts::attempt(const std::function<void()>& save, std::uint64_t step, bool last) {
  constexpr const char* no_memory = "no memory for a checkpoint";
  try {
    save();
    failures_ = 0;
    return true;
  } catch (const OutputError& error) {
    ++failures_;
    if (ends_run(last)) {
      throw OutputError(fmt::format("{}; {}", error.what(), describe_end(step)),
                        end_hint(error.hint(), step));
    }
    warn(error.what());
  } catch (const std::bad_alloc&) {
    ++failures_;
    if (ends_run(last)) {
      progress_.message(
          fmt::format("not saved: {}; {}; {}", no_memory, describe_end(step), end_hint("", step)));
      throw;
    }
    warn(no_memory);
  }
  return false;
}

void SaveAttempts::warn(const std::string& failure) {
  progress_.message(
      fmt::format("warning: not saved: {}; training continues ({} failed save{} in a row; the run "
                  "stops after {})",
                  failure, failures_, failures_ == 1 ? "" : "s", max_failures));
}

/// Why the run ends, where, and what is left of it.
std::string SaveAttempts::describe_end(std::uint64_t step) const {
  const bool third = failures_ >= max_failures;
  const std::string reason =
      third ? fmt::format("{} saves in a row have failed", failures_) : "its last save has failed";
  const std::string newest = newest_checkpoint(step);
  return fmt::format(
      "the run ends at step {}, since {}; {}", format_count(step), reason,
      newest.empty() ? "it has no checkpoint" : "its newest checkpoint is " + newest);
}

/// remedy  how to prevent the failure; may be empty
std::string SaveAttempts::end_hint(const std::string& remedy, std::uint64_t step) const {
  const std::string again = newest_checkpoint(step).empty()
                                ? "start the run again"
                                : fmt::format("resume with `{} train --resume {}`", program_name(),
                                              format_argument(directory_.path().string()));
  return remedy.empty() ? again : fmt::format("{}, then {}", remedy, again);
}

/// The path of the newest checkpoint up to `step`; empty without one.
std::string SaveAttempts::newest_checkpoint(std::uint64_t step) const try {
  std::vector<std::uint64_t> steps = directory_.steps();
  std::erase_if(steps, [&](std::uint64_t other) { return other > step; });
  return steps.empty() ? "" : directory_.checkpoint_path(steps.back()).string();
} catch (const CheckpointError&) {  // the folder cannot be listed
  return "";
}

}  // namespace tapestry
