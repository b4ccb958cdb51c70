#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include "autograd/profiler.h"
#include "train/error.h"
#include "train/format.h"
#include "train/non_finite.h"
#include "train/platform/durable_file.h"

// How a Trainer saves a run.

namespace tapestry {

void Trainer::save_as_scheduled() {
  if (config_.train.on_nan == OnNan::rollback) {
    if (const auto found = find_non_finite_state(model_.parameters, *optimizer_, group_)) {
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
  if (const auto found = find_non_finite_state(model_.parameters, *optimizer_, group_)) {
    refuse_state(*found);
  }
  const TimeLimit::Clock::time_point started = TimeLimit::Clock::now();
  const std::function<Snapshot()> snapshot = gather_snapshot();
  const std::string answer = group_.broadcast([&] {
    const bool written = saves_.attempt([&] { write_files(snapshot()); }, state_.step, last);
    return std::string(written ? "saved" : "");
  });
  const bool saved = answer == "saved";
  if (saved) {
    saved_step_ = state_.step;
    progress_.checkpoint(state_.step, directory_.checkpoint_path(state_.step).string());
  }
  const TimeLimit::Clock::duration time = TimeLimit::Clock::now() - started;
  longest_save_ = std::max(longest_save_, time);
  progress_.exclude(time);
  return saved;
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

/// Writes the metrics first, so that the run is complete once the last checkpoint is written.
void Trainer::write_files(const Snapshot& snapshot) {
  directory_.require_lock();
  state_.metrics.write(directory_.path() / "metrics.csv", directory_.files());
  write_history();
  const std::vector<std::string> not_deleted = directory_.save(
      state_.step, snapshot,
      {.keep_last = config_.train.keep_last,
       .best_step = state_.best_step,
       .previous_best_step = state_.before_end ? state_.before_end->best_step : std::nullopt,
       .scheduled_step = state_.scheduled_save});
  for (const std::string& problem : not_deleted) {
    if (!not_deleted_.insert(problem).second) continue;
    progress_.message("warning: old checkpoint not deleted: " + problem);
  }
}

/// A run without changes has no history.txt; there may be one of a later checkpoint that was lost.
void Trainer::write_history() {
  const auto path = directory_.path() / "history.txt";
  std::error_code ignored;
  if (!state_.history.empty()) {
    write_file_durably(path, std::as_bytes(std::span(state_.history)), directory_.files());
  } else if (std::filesystem::exists(path, ignored)) {
    remove_file(path, directory_.files());
  }
}

void Trainer::refuse_state(const std::string& found) const {
  throw NumericError(
      fmt::format("step {}: {}; this state is not saved, {}", state_.step, found, newest_saved()),
      smaller_steps_hint);
}

}  // namespace tapestry
