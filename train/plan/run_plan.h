#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_schedule.h"
#include "train/config/config.h"
#include "train/loop/memory_need.h"
#include "train/loop/step.h"
#include "train/models/model_summary.h"
#include "train/system/interruptions.h"
#include "train/system/machine.h"

/// Time, memory and disk of a run, measured before it begins, for `tapestry plan`. All times are in
/// seconds.
namespace tapestry {

/// The times of measured steps, of the mean number of positions of an epoch.
struct StepTimes {
  double median = 0.0;
  double low = 0.0;   ///< 10th percentile
  double high = 0.0;  ///< 90th percentile
  std::size_t steps = 0;
};

/// The fastest of several repetitions of a step with a number of threads.
struct ThreadTime {
  std::size_t threads = 0;
  double seconds = 0.0;
};

/// How several processes divide a step. Its time is `compute` and the time of sending `sent` bytes,
/// as far as that does not overlap with backward.
struct StepDivision {
  std::vector<std::size_t> micro_batches;  ///< of each process
  double compute = 0.0;      ///< forward, backward and update of the process with most of them
  std::uint64_t sent = 0;    ///< bytes of the process that sends most
  std::uint64_t memory = 0;  ///< MemoryNeed::of_process()
};

/// Obstacle that prevents a run or slows it down, and what to change.
struct Limit {
  std::string what;    ///< "too many threads: 1 are 1.35 times as fast as 2"
  std::string change;  ///< "set train.threads=1, which changes no result"; may be empty
};

/// Time, memory and disk space of a run.
struct RunPlan {
  std::vector<std::string> description;  ///< describe_run()
  Config config;
  ModelSummary model;
  BatchStatistics epoch;    ///< of the first epoch
  bool has_lengths = true;  ///< false for images, which have no tokens and no padding

  MemoryNeed need;              ///< the estimate that `train` prints
  std::string largest_step;     ///< Task::describe_size()
  std::uint64_t peak_memory{};  ///< measured, of a process that has done all that the run does
  AvailableMemory available;    ///< at the start

  StepTimes step;                        ///< with the threads of the config
  double preparation = 0.0;              ///< median time that a step waits for its batches
  double gradients = 0.0;                ///< median time of forward and backward
  double update = 0.0;                   ///< median time of norm, clipping and optimizer
  double targets = 0.0;                  ///< mean number of target tokens of a step
  std::string target_noun;               ///< TaskWords::targets
  std::optional<StepDivision> division;  ///< of more than one process

  std::size_t threads = 0;  ///< of the config
  std::size_t cores = 0;    ///< cores that this process may use
  /// With ascending numbers of threads; empty if steps take too long or no other number is
  /// possible.
  std::vector<ThreadTime> thread_times;

  std::uint64_t validations = 0;
  double scoring = 0.0;     ///< of one validation, extrapolated from four batches
  double decoding = 0.0;    ///< of one validation, extrapolated from one batch
  std::size_t decoded = 0;  ///< sequences decoded in a validation

  std::uint64_t checkpoint_bytes = 0;      ///< arrays of the first checkpoint
  std::uint64_t checkpoints = 0;           ///< maximum number of files, including one being written
  std::optional<std::uint64_t> free_disk;  ///< nullopt if the system does not tell

  double start = 0.0;         ///< from the start of the process to the first step
  std::vector<Limit> limits;  ///< find_limits()

  std::uint64_t steps_per_epoch() const;
  double padding_share() const;  ///< of the positions of an epoch; 0 for images
  double all_steps() const { return step.median * static_cast<double>(config.train.steps); }
  double all_validations() const { return (scoring + decoding) * static_cast<double>(validations); }
  /// Start, steps and validations.
  double total() const { return start + all_steps() + all_validations(); }
};

/// How a plan is measured.
struct PlanOptions {
  double seconds = 3.0;  ///< approximate time for steps, and for each other number of threads
  TimeLimit::Clock::time_point started;  ///< start of the process
  std::size_t processes = 1;             ///< of the run
};

/// Measures steps, threads, a validation and a save of a run that has not begun, in this process;
/// writes no files. When it returns, the process has the number of threads of the config.
///
/// computer  of the run, before its first step; afterwards it has computed some steps
/// throws    NumericError from a step; kernels::OutOfMemory.
RunPlan plan_run(StepComputer& computer, const PlanOptions& options);

/// The limits that a plan shows: first obstacles to the run, then to its speed.
std::vector<Limit> find_limits(const RunPlan& plan);

/// The plan as `tapestry plan` prints it.
std::string plan_text(const RunPlan& plan);

/// The plan as a JSON object: `tapestry plan --json`.
std::string plan_json(const RunPlan& plan);

}  // namespace tapestry
