// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_schedule.h"
#include "data/io/memory.h"
#include "train/config/config.h"
#include "train/loop/memory_need.h"
#include "train/loop/step.h"
#include "train/models/model_summary.h"
#include "train/system/time_limit.h"

/// Time, memory and disk space of a run, measured before it begins, for `tapestry plan`. All times
/// are in seconds.
namespace tapestry {

/// Memory of a run.
struct PlannedMemory {
  MemoryNeed need;            ///< the estimate that `train` prints
  std::string largest_step;   ///< size of the largest step, see Task::describe_size()
  AvailableMemory available;  ///< available memory before the plan is measured
  std::uint64_t peak = 0;     ///< peak resident bytes after steps, a validation and a snapshot
};

/// Times of a step with the number of threads in the config. Median and percentiles are scaled to
/// the mean number of positions per step in an epoch.
struct PlannedStep {
  double median = 0.0;
  double low = 0.0;          ///< 10th percentile of the time
  double high = 0.0;         ///< 90th percentile of the time
  double preparation = 0.0;  ///< median time that a step waits for its batches
  double gradients = 0.0;    ///< median time of the forward and backward pass
  double update = 0.0;       ///< median time of gradient norm, clipping and optimizer
  double targets = 0.0;      ///< mean number of target tokens per step
  std::size_t measured = 0;  ///< number of measured steps
};

/// The validations of a run.
struct PlannedValidations {
  std::uint64_t count = 0;
  double scoring = 0.0;     ///< time per validation, extrapolated from four batches
  double decoding = 0.0;    ///< time per validation, extrapolated from one batch
  std::size_t decoded = 0;  ///< number of sequences decoded in a validation

  double total() const { return (scoring + decoding) * static_cast<double>(count); }
};

/// The checkpoints of a run.
struct PlannedCheckpoints {
  std::uint64_t bytes = 0;  ///< size of the arrays in the first checkpoint
  std::uint64_t files = 0;  ///< maximum number of files, including a file being written
  std::optional<std::uint64_t> free_disk;  ///< free space in bytes; nullopt if unknown

  std::uint64_t total_bytes() const { return files * bytes; }
};

/// Minimum time of a step with `threads` threads.
struct ThreadTime {
  std::size_t threads = 0;
  double seconds = 0.0;
};

/// Threads of a run, and times of a step with different numbers of threads.
struct PlannedThreads {
  std::size_t set = 0;    ///< value of train.threads, or all cores
  std::size_t cores = 0;  ///< number of cores available to this process
  /// In ascending order of threads; empty if a step takes too long or only one core is available.
  std::vector<ThreadTime> times;
};

/// The division of a step among several processes. A step takes `compute` plus the part of the time
/// for sending `sent` bytes that does not overlap with the backward pass.
struct StepDivision {
  std::vector<std::size_t> micro_batches;  ///< number of micro-batches of each process
  double compute = 0.0;      ///< time of the process with the most micro-batches, without sending
  std::uint64_t sent = 0;    ///< maximum number of bytes sent by one process
  std::uint64_t memory = 0;  ///< memory of each process, see MemoryNeed::per_process()
};

/// An obstacle that prevents a run or slows it down, and a change that removes it.
struct Limit {
  std::string what;    ///< "too many threads: 1 is 1.35 times as fast as 2"
  std::string change;  ///< "set train.threads=1, which does not change results"; may be empty
};

/// Time, memory and disk space of a run.
struct RunPlan {
  Config config;
  std::vector<std::string> description;  ///< lines of describe_run()
  ModelSummary model;
  std::string target_noun;  ///< noun for labels, see TaskWords::targets
  BatchStatistics epoch;    ///< statistics of the batches of the first epoch
  bool has_lengths = true;  ///< false for images, which have no tokens and no padding

  PlannedMemory memory;
  double startup = 0.0;  ///< time from the start of the process to the first step
  PlannedStep step;
  PlannedValidations validations;
  PlannedCheckpoints checkpoints;
  std::optional<StepDivision> division;  ///< set if the run has more than one process
  PlannedThreads threads;
  std::vector<Limit> limits;  ///< limits from find_limits()

  std::uint64_t steps_per_epoch() const;
  double padding_share() const;  ///< fraction of the positions of an epoch; 0 for images
  double all_steps() const { return step.median * static_cast<double>(config.train.steps); }
  /// The total time of startup, steps and validations.
  double total() const { return startup + all_steps() + validations.total(); }
};

/// Options for measuring a plan.
struct PlanOptions {
  double seconds = 3.0;  ///< approximate time for measuring steps, and for each number of threads
  TimeLimit::Clock::time_point started;  ///< start of the process
  std::size_t processes = 1;             ///< number of processes of the run
};

/// Measures steps, thread counts, a validation and a save of a run that has not begun. Runs in this
/// process and writes no files. Afterwards, the process uses the number of threads in the config.
///
/// computer  the run before its first step; computes some of its steps
/// throws    NumericError if a step throws it; kernels::OutOfMemory.
RunPlan plan_run(StepComputer& computer, const PlanOptions& options);

/// The limits of a plan: limits that prevent the run, then limits that slow it down.
std::vector<Limit> find_limits(const RunPlan& plan);

/// The plan as text for `tapestry plan`.
std::string plan_text(const RunPlan& plan);

/// The plan as a JSON object for `tapestry plan --json`.
std::string plan_json(const RunPlan& plan);

}  // namespace tapestry
