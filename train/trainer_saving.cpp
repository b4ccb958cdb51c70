#include "train/trainer.h"

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

#include "train/error.h"
#include "train/format.h"
#include "train/kept_checkpoints.h"
#include "train/non_finite.h"
#include "train/platform/durable_file.h"
#include "train/storage/run_directory.h"

// How a Trainer saves a run: the state is copied between two steps, and written meanwhile.

namespace tapestry {
namespace {

/// What a save writes: copies, since training goes on while they are written.
struct SavedFiles {
  std::uint64_t step;
  MetricsTable metrics;
  std::string history;
  Retention retention;
  Snapshot snapshot;
};

/// A run without changes has no history.txt; there may be one of a later checkpoint that was lost.
void write_history(const std::string& history, const RunDirectory& directory) {
  const auto path = directory.path() / "history.txt";
  std::error_code ignored;
  if (!history.empty()) {
    write_file_durably(path, std::as_bytes(std::span(history)), directory.files());
  } else if (std::filesystem::exists(path, ignored)) {
    remove_file(path, directory.files());
  }
}

/// Writes the metrics first, so that the run is complete once the last checkpoint is written.
/// Returns why old checkpoints could not be deleted.
std::vector<std::string> write_files(const SavedFiles& files, RunDirectory& directory) {
  directory.require_lock();
  files.metrics.write(directory.path() / "metrics.csv", directory.files());
  write_history(files.history, directory);
  return directory.save(files.step, files.snapshot, files.retention);
}

}  // namespace

void Trainer::save_as_scheduled() {
  finish_save();
  if (config_.train.on_nan == OnNan::rollback) {
    if (const auto found = find_non_finite_state(model_.parameters, *optimizer_, group_)) {
      count_nan_step(fmt::format("step {}: {}", state_.step, *found));
      return roll_back(fmt::format("{} at step {}", *found, state_.step));
    }
  }
  // The checkpoint records its own step as the last scheduled save; reverted if writing it fails.
  // Until that is known, nothing else changes the number of steps that are not finite.
  Save scheduled{.last = finished(),
                 .scheduled_before = std::exchange(state_.scheduled_save, state_.step)};
  if (config_.train.on_nan == OnNan::rollback) {
    scheduled.nan_steps_before = std::exchange(state_.nan_steps, 0);
  }
  save(scheduled);
}

void Trainer::save_on_request() {
  collect_save();
  if (saved_step_ == state_.step) return report_requested_save();
  if (!save_in_flight_ || save_in_flight_->step != state_.step) {
    save({.last = finished(), .requested = true});
  } else {
    save_in_flight_->requested = true;
  }
}

/// Begins to save a checkpoint; finish_save() reports how that ends. The last save of a run, and
/// one that the system gives no thread or no memory, has ended when the function returns.
void Trainer::save(Save save) {
  finish_save();
  begin_save(save);
  save_in_flight_ = save;
  if (!save.in_background) finish_save();
}

/// Copies the state and begins to write it.
void Trainer::begin_save(Save& save) {
  const PartTimer timer(time_use_, TimePart::saving, "saving");
  if (const auto found = find_non_finite_state(model_.parameters, *optimizer_, group_)) {
    refuse_state(*found);
  }
  const TimeLimit::Clock::time_point started = TimeLimit::Clock::now();
  const std::function<Snapshot()> snapshot = gather_snapshot();
  const std::string answer = group_.broadcast(
      [&] { return std::string(begin_writing(snapshot, save.last) ? "in the background" : ""); });
  save.step = state_.step;
  save.copying = TimeLimit::Clock::now() - started;
  progress_.exclude(save.copying);
  save.in_background = !answer.empty();
}

/// Copies what a save writes and begins to write it. Returns whether that goes on in the
/// background; if not, it has ended.
bool Trainer::begin_writing(const std::function<Snapshot()>& snapshot, bool last) {
  std::function<void()> write = [] { throw std::bad_alloc(); };
  bool in_background = false;
  try {
    auto files = std::make_shared<const SavedFiles>(
        SavedFiles{state_.step, state_.metrics, state_.history,
                   kept_checkpoints(state_, config_.train), snapshot()});
    write = [this, files = std::move(files)] { undeleted_ = write_files(*files, directory_); };
    in_background = !last;
  } catch (const std::bad_alloc&) {  // finish_save() reports it
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
/// thrown when the memory for the state of the other processes was allocated. A process that is
/// alone makes the snapshot when the function is called.
std::function<Snapshot()> Trainer::gather_snapshot() {
  if (group_.size() == 1) return [this] { return make_snapshot(parts()); };
  auto gathered = std::make_shared<Snapshot>();
  std::exception_ptr problem;
  const std::string answer = group_.broadcast([&] {
    try {
      *gathered = make_snapshot(parts());
    } catch (const std::bad_alloc&) {
      problem = std::current_exception();
    }
    return std::string(problem ? "" : "ready");
  });
  if (answer == "ready") {
    for (const ShardState& state : shard_states(parts())) {
      shards_.gather_state(state.tensors, [&](std::size_t i) {
        return gathered->mutable_bytes(state.group + state.tensors[i].name);
      });
    }
  }
  return [gathered, problem] {
    if (problem) std::rethrow_exception(problem);
    return std::move(*gathered);
  };
}

/// Reports how the save in flight has ended, if it has.
void Trainer::collect_save() {
  if (save_in_flight_ && group_.any_process(group_.is_rank_0() && writer_.has_ended())) {
    finish_save();
  }
}

/// Waits for the save in flight, if there is one, and reports how it ended: a failure is a warning.
///
/// throws  OutputError or std::bad_alloc if the failure ends the run, see SaveAttempts
void Trainer::finish_save() {
  if (!save_in_flight_) return;
  const PartTimer timer(time_use_, TimePart::saving, "waiting for a save");
  const TimeLimit::Clock::time_point started = TimeLimit::Clock::now();
  const Save save = *std::exchange(save_in_flight_, std::nullopt);
  const std::string answer = group_.broadcast([&] {
    const bool written = saves_.attempt([&] { writer_.finish(); }, state_.step, save.last);
    return std::string(written ? "saved" : "");
  });
  longest_save_ = std::max(longest_save_, time_of(save));
  if (answer == "saved") {
    report_saved(save);
  } else {
    if (save.scheduled_before) state_.scheduled_save = *save.scheduled_before;
    if (save.nan_steps_before) state_.nan_steps = *save.nan_steps_before;
  }
  progress_.exclude(TimeLimit::Clock::now() - started);
}

void Trainer::report_saved(const Save& save) {
  saved_step_ = save.step;
  for (const std::string& problem : std::exchange(undeleted_, {})) {
    if (!not_deleted_.insert(problem).second) continue;
    progress_.message("warning: old checkpoint not deleted: " + problem);
  }
  progress_.checkpoint(save.step, directory_.checkpoint_path(save.step).string());
  if (save.requested) report_requested_save();
}

void Trainer::report_requested_save() {
  progress_.message(
      fmt::format("saved at step {}, as a signal requested", format_count(*saved_step_)));
}

/// Waits for the save in flight of a run that ends with an error. The other processes may have
/// ended already: they are told nothing.
void Trainer::finish_save_after_error() try {
  if (!save_in_flight_) return;
  const Save save = *std::exchange(save_in_flight_, std::nullopt);
  if (!group_.is_rank_0()) return;
  try {
    writer_.finish();
    report_saved(save);
  } catch (const UserError& error) {
    progress_.message(fmt::format("warning: not saved: {}", error.what()));
  }
} catch (const std::exception&) {  // the error that ends the run is what matters
}

/// The longest that a save has taken, with the one in flight up to now.
TimeLimit::Clock::duration Trainer::longest_save() const {
  if (!save_in_flight_) return longest_save_;
  return std::max(longest_save_, time_of(*save_in_flight_));
}

/// How long a save has taken up to now; if it was not written in the background, `copying` is all.
TimeLimit::Clock::duration Trainer::time_of(const Save& save) const {
  return save.copying + (save.in_background ? writer_.time() : TimeLimit::Clock::duration{0});
}

void Trainer::refuse_state(const std::string& found) const {
  throw NumericError(
      fmt::format("step {}: {}; this state is not saved, {}", state_.step, found, newest_saved()),
      smaller_steps_hint);
}

}  // namespace tapestry
