// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_directory.h"
#include "train/loop/progress.h"
#include "train/parallel/parameter_shards.h"
#include "train/parallel/process_group.h"
#include "train/recording/time_use.h"
#include "train/system/background_task.h"
#include "train/system/time_limit.h"

namespace tapestry {

/// Saves a run that is being trained: its checkpoints and metrics.csv.
///
/// A save copies the state between two steps, and writes the copy in the background while training
/// continues. One save is written at a time: the next save waits for it. The training thread
/// reports and counts the result of a save in collect() or finish().
///
/// A failed save is a warning, because the next save may succeed; the third consecutive failure and
/// a failure of the last save are errors. Their message states the failure, why and at which step
/// the run ends, its newest checkpoint and how to resume it. An old checkpoint that cannot be
/// deleted is a warning.
///
/// In a parallel run only rank 0 writes; it receives the shards of the other processes. Every
/// process calls all functions that are not const, except finish_after_error().
class RunSaver {
 public:
  using Clock = TimeLimit::Clock;

  /// All arguments, and what `run` refers to, must outlive the object.
  RunSaver(const RunParts& run, ParameterShards& shards, RunDirectory& directory,
           Progress& progress, ProcessGroup& group, TimeUse& time_use);

  /// Begins a scheduled save: by train.save_every, or after one of the best validations. Unless it
  /// fails, its step becomes TrainingState::scheduled_save.
  ///
  /// last    whether this is the last save of the run. This save, like a save without a thread or
  ///         memory for the background, is complete when the function returns.
  /// throws  NumericError if parameters, buffers or the state of the optimizer are not finite;
  ///         OutputError or std::bad_alloc if a failure ends the run.
  void save_as_scheduled(bool last);

  /// Begins a save outside of the schedule, such as at the end of a run. For arguments and errors,
  /// see save_as_scheduled().
  void save(bool last);

  /// Saves the last state of this process unless it is already saved; then deletes the old
  /// checkpoints that an earlier process left when it was killed. For errors, see
  /// save_as_scheduled().
  void complete();

  /// Begins the save that a signal requested, unless this step is already saved or being saved.
  /// Prints a message when the save is complete.
  void save_on_request(bool last);

  /// Reports the result of the save in flight, if it has ended.
  void collect();

  /// Waits for the save in flight, if there is one, and reports its result. A failure is a warning.
  ///
  /// throws  OutputError or std::bad_alloc if the failure ends the run.
  void finish();

  /// Waits for the save in flight of a run that ends with an error. Does not communicate: the other
  /// processes may have ended.
  void finish_after_error();

  /// The step of the checkpoint that was written or restored last; nullopt without a checkpoint.
  const std::optional<std::uint64_t>& saved_step() const { return saved_step_; }
  /// "the newest checkpoint is from step 12", or "there is no checkpoint yet".
  std::string describe_newest() const;

  /// Call this after the state has been restored from a checkpoint.
  ///
  /// kept  the checkpoints that complete() keeps if nothing is saved later; by default, the
  ///       checkpoints that the current state and config keep
  void mark_as_saved(std::optional<Retention> kept = std::nullopt) {
    saved_step_ = run_.state.step;
    kept_with_saved_ = std::move(kept);
  }
  /// Call this before the state of a saved step changes, so that it is saved again.
  void mark_as_unsaved() { saved_step_.reset(); }

  /// The last scheduled checkpoint, or the newest intact checkpoint if the scheduled checkpoint is
  /// damaged or missing. Rank 0 chooses it. The scheduled checkpoint is missing if a run that
  /// stopped before its first scheduled save is resumed with train.on_nan: rollback.
  ///
  /// found   reason for the rollback, for the error message
  /// throws  NumericError if there is no checkpoint that can be used.
  ArrayStore read_rollback_target(const std::string& found) const;

  /// The maximum duration of a save, including the current one so far.
  Clock::duration max_save_time() const;
  /// Whether a save has begun and its result has not been reported.
  bool is_in_flight() const { return in_flight_.has_value(); }

  /// Bytes of the parameters, buffers and optimizer state of a checkpoint.
  std::uint64_t checkpoint_bytes() const;

 private:
  /// A save whose result has not been reported.
  struct Save {
    bool last = false;       ///< whether it is the last save of the run
    bool requested = false;  ///< whether a signal requested it
    /// Values of the state that are restored if the save fails.
    std::optional<std::uint64_t> scheduled_before{}, nan_steps_before{};
    std::uint64_t step = 0;      ///< step of the saved state
    bool is_copied = false;      ///< false: there was no memory for the copy
    bool in_background = false;  ///< whether it is written while training continues
    Clock::duration copying{};   ///< time for which training stopped
  };
  struct Copy;

  void begin(Save save);
  void start(Save& save);
  void require_finite_state();
  bool copy_state();
  void gather_shards();
  bool start_writing(bool last);
  bool end_writing(const Save& save);
  void count_failure(bool last);
  void warn_of_failure(const std::string& failure);
  std::string describe_end() const;
  std::string end_hint(const std::string& remedy) const;
  std::string newest_checkpoint() const;
  ArrayStore choose_rollback_target(const std::string& found) const;
  void report_saved(const Save& save);
  void report_deletion_problems();
  void report_requested_save();
  Clock::duration elapsed_time(const Save& save) const;

  RunParts run_;
  ParameterShards& shards_;
  RunDirectory& directory_;
  Progress& progress_;
  ProcessGroup& group_;
  TimeUse& time_use_;
  std::size_t failures_ = 0;  ///< number of consecutive failures
  std::optional<std::uint64_t> saved_step_;
  std::optional<Retention> kept_with_saved_;  ///< argument of mark_as_saved()
  std::optional<Save> in_flight_;             ///< equal in all processes
  std::shared_ptr<Copy> copy_;                ///< copy that writer_ writes next; in rank 0
  std::vector<std::string>
      deletion_problems_;                    ///< old checkpoints not deleted since the last report
  std::set<std::string> reported_problems_;  ///< deletion problems in earlier reports
  bool warned_of_thread_ = false;            ///< whether the missing thread was reported
  Clock::duration max_save_time_{0};
  BackgroundTask writer_;  ///< on rank 0; declared last: ends before the members it writes to
};

}  // namespace tapestry
