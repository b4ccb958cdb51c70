#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_directory.h"
#include "train/loop/progress.h"
#include "train/parallel/parameter_shards.h"
#include "train/parallel/process_group.h"
#include "train/recording/time_use.h"
#include "train/system/background_task.h"
#include "train/system/interruptions.h"

namespace tapestry {

/// Counts failed saves. A run continues with a warning after a failed save, because the next save
/// may succeed. The third consecutive failure ends the run, and so does a failure of the last save.
class SaveAttempts {
 public:
  static constexpr std::size_t max_failures = 3;  ///< consecutive

  /// Failures are reported to `progress`. Both arguments must outlive the object.
  SaveAttempts(Progress& progress, const RunDirectory& directory)
      : progress_(progress), directory_(directory) {}

  /// Calls `save`; returns whether it succeeded.
  ///
  /// step    steps that the run has done
  /// last    whether this is the last save of the run
  /// throws  OutputError if the failure ends the run; its message has the failure, why the run
  ///         ends, its step, its newest checkpoint and how to resume it. std::bad_alloc if `save`
  ///         throws it and the run ends, after a progress message with the same contents.
  bool attempt(const std::function<void()>& save, std::uint64_t step, bool last);

 private:
  void warn(const std::string& failure);
  bool ends_run(bool last) const { return last || failures_ >= max_failures; }
  std::string describe_end(std::uint64_t step) const;
  std::string end_hint(const std::string& remedy, std::uint64_t step) const;
  std::string newest_checkpoint(std::uint64_t step) const;

  Progress& progress_;
  const RunDirectory& directory_;
  std::size_t failures_ = 0;  ///< consecutive
};

/// Saves a run that is being trained: its checkpoints and metrics.csv.
///
/// A save copies the state between two steps, and writes the copy in the background while training
/// continues. One save is written at a time: the next one waits for it. How a save has ended is
/// reported, and counted, by collect() or finish(), on the thread that trains.
///
/// A failed save is a warning; the third consecutive failure and a failure of the last save are
/// errors, see SaveAttempts. An old checkpoint that cannot be deleted is a warning.
///
/// Of a group, only rank 0 writes, and gets the state of the shards of the other processes. All
/// functions that are not const are then called by all processes, but finish_after_error().
class RunSaver {
 public:
  using Clock = TimeLimit::Clock;

  /// All arguments, and what `run` refers to, must outlive the object.
  RunSaver(const RunParts& run, ParameterShards& shards, RunDirectory& directory,
           Progress& progress, ProcessGroup& group, TimeUse& time_use);

  /// Begins a save that is due (train.save_every, or one of the best validations), whose step is
  /// the step of the last scheduled save (TrainingState::scheduled_save) unless it fails.
  ///
  /// last    whether it is the last save of the run; it has ended when the function returns, as has
  ///         one for which the system gives no thread or no memory
  /// throws  NumericError if parameters, buffers or the state of the optimizer are not finite;
  ///         OutputError or std::bad_alloc if a failure ends the run.
  void save_as_scheduled(bool last);

  /// Begins a save outside of the schedule, such as the one at the end. Arguments and errors are
  /// as for save_as_scheduled().
  void save(bool last);

  /// Begins a save that a signal requested, unless this step is saved or is being saved, and tells
  /// when it is done.
  void save_on_request(bool last);

  /// Reports how the save in flight has ended, if it has.
  void collect();

  /// Waits for the save in flight, if there is one, and reports how it ended: a failure is a
  /// warning.
  ///
  /// throws  OutputError or std::bad_alloc if the failure ends the run.
  void finish();

  /// Waits for the save in flight of a run that ends with an error. The other processes may have
  /// ended already: they are told nothing.
  void finish_after_error();

  /// The step of the checkpoint that was written or restored last; nullopt without one.
  const std::optional<std::uint64_t>& saved_step() const { return saved_step_; }
  /// "the newest checkpoint is of step 12", or that it has none.
  std::string describe_newest() const;

  /// To be called when the state has been restored from a checkpoint, and so is saved.
  void mark_as_saved() { saved_step_ = run_.state.step; }
  /// To be called before more of the state of a saved step changes, so that it is saved again.
  void mark_as_unsaved() { saved_step_.reset(); }

  /// The last scheduled checkpoint, which rank 0 chooses, or the newest intact one if that is
  /// damaged or missing. It is missing if a run that stopped before its first scheduled save is
  /// resumed with train.on_nan: rollback.
  ///
  /// found   why the run goes back, for the error
  /// throws  NumericError if there is no checkpoint that can be used.
  ArrayStore read_rollback_target(const std::string& found) const;

  /// The longest time of a save, including the current one so far.
  Clock::duration longest() const;
  /// Whether a save has begun and finish() or collect() has not reported yet how it ended.
  bool is_in_flight() const { return in_flight_.has_value(); }

  /// Bytes of the parameters, buffers and optimizer state of a checkpoint.
  std::uint64_t checkpoint_bytes() const;

 private:
  /// A save that has begun and whose end finish() has not reported yet.
  struct Save {
    bool last = false;       ///< whether it is the last save of the run
    bool requested = false;  ///< by a signal
    /// Values of the state that are restored if the save fails.
    std::optional<std::uint64_t> scheduled_before{}, nan_steps_before{};
    std::uint64_t step = 0;      ///< of the state that is saved
    bool in_background = false;  ///< whether it is written while training continues
    Clock::duration copying{};   ///< time that training stopped for it
  };

  void begin(Save save);
  void copy_state(Save& save);
  bool begin_writing(const std::function<ArrayStore()>& snapshot, bool last);
  std::function<ArrayStore()> gather_arrays();
  ArrayStore choose_rollback_target(const std::string& found) const;
  void report_saved(const Save& save);
  void report_requested_save();
  Clock::duration elapsed_time(const Save& save) const;

  RunParts run_;
  ParameterShards& shards_;
  RunDirectory& directory_;
  Progress& progress_;
  ProcessGroup& group_;
  TimeUse& time_use_;
  SaveAttempts attempts_;
  std::optional<std::uint64_t> saved_step_;
  std::optional<Save> in_flight_;       ///< the same in all processes
  std::vector<std::string> undeleted_;  ///< why writer_ could not delete old checkpoints
  std::set<std::string> not_deleted_;   ///< why old checkpoints were not deleted, as warned
  bool warned_of_thread_ = false;       ///< that a save had no thread
  Clock::duration longest_{0};
  BackgroundTask writer_;  ///< of rank 0; the last member: ends before what it writes to
};

}  // namespace tapestry
