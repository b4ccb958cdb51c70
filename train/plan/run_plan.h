#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_schedule.h"
#include "data/corpus.h"
#include "train/config/config.h"
#include "train/memory_need.h"
#include "train/model_summary.h"
#include "train/parallel/step_simulation.h"
#include "train/plan/step_distribution.h"
#include "train/platform/interruptions.h"
#include "train/platform/memory.h"
#include "train/step_computer.h"

/// What a run is going to take, measured before it begins, for `tapestry plan`. All times are in
/// seconds.
namespace tapestry {

/// How often a run does something.
struct Occasions {
  std::uint64_t fewest = 0, most = 0;
};

/// The number of validations of a run from its first step: every `train.validate_every` steps and
/// after the last one; 0 without a validation set.
std::uint64_t count_validations(const TrainOptions& options, bool has_validation_set);

/// The number of saves of a run: every `train.save_every` steps and after the last one, and at most
/// one for each validation, if each of them is the best up to then.
Occasions count_saves(const TrainOptions& options, bool has_validation_set);

/// The time of a step with a number of threads.
struct ThreadTime {
  std::size_t threads = 0;
  double seconds = 0.0;  ///< of the fastest of the repetitions of each step, mean
};

/// The speed of a step with other batches, relative to those of the config.
struct BatchTrial {
  std::size_t batch_size = 0;    ///< examples of a batch; 0: batch_tokens
  std::size_t batch_tokens = 0;  ///< tokens of a batch; 0: batch_size
  std::size_t accumulate = 1;    ///< batches of a step
  double speedup = 0.0;          ///< target tokens per second, as a multiple
  bool same_step = false;        ///< whether a step has as many examples as before
};

/// Everything that plan_run() finds out.
struct RunPlan {
  std::string run_dir;
  std::uint64_t steps = 0;
  ModelSummary model;
  BatchStatistics epoch;       ///< of the first epoch
  std::size_t accumulate = 1;  ///< batches of a step
  bool has_lengths = true;     ///< false for images, which have no tokens and no padding

  MemoryNeed need;              ///< the estimate that `train` prints
  std::uint64_t peak_memory{};  ///< measured: of a process that has done all that the run does
  AvailableMemory available;    ///< at the start

  StepDistribution step;     ///< with the threads of the config
  double preparation = 0.0;  ///< median time that a step waits for its batches
  double gradients = 0.0;    ///< median time of forward and backward
  double update = 0.0;       ///< median time of norm, clipping and optimizer
  double targets = 0.0;      ///< mean number of target tokens of a step

  std::optional<StepCosts> costs;  ///< for simulate_step(), if PlanOptions::costs

  std::size_t threads = 0;  ///< of the config
  /// Of ascending numbers of threads; empty if steps take too long or no other number is possible.
  std::vector<ThreadTime> thread_times;
  std::optional<BatchTrial> larger_batch;
  /// Batches of a number of tokens that have as many tokens on average, and their padding share.
  std::optional<std::size_t> equal_batch_tokens;
  double padding_by_tokens = 0.0;

  std::uint64_t validations = 0;
  double scoring = 0.0;          ///< of one validation
  double decoding = 0.0;         ///< of one validation
  std::size_t decoded = 0;       ///< sequences decoded in a validation
  bool whole_validation = true;  ///< whether the whole set was measured, not a part of it

  Occasions saves;
  double saving = 0.0;                     ///< of one save, without the time of the disk
  std::uint64_t checkpoint_bytes = 0;      ///< size of the first checkpoint
  std::uint64_t checkpoints = 0;           ///< most files at a time, that being written included
  std::optional<std::uint64_t> free_disk;  ///< nullopt if the system does not tell

  std::uint64_t reports = 0;  ///< see train.report_every
  double reporting = 0.0;     ///< of one report

  double start = 0.0;       ///< from the start of the process to the first step
  double busy_cores = 0.0;  ///< cores that other programs used during the measurements
  std::size_t cores = 0;    ///< cores that this process may use

  std::uint64_t steps_per_epoch() const;
  double padding_share() const;  ///< of the positions of an epoch; 0 for images
  double all_steps() const { return step.median * static_cast<double>(steps); }
  double all_validations() const { return (scoring + decoding) * static_cast<double>(validations); }
  double all_saves() const { return saving * static_cast<double>(saves.most); }
  double all_reports() const { return reporting * static_cast<double>(reports); }
  /// Start, steps, validations, saves and reports.
  double total() const {
    return start + all_steps() + all_validations() + all_saves() + all_reports();
  }
};

/// How a plan is measured.
struct PlanOptions {
  double seconds = 3.0;  ///< for the steps, for each number of threads and for each trial, about
  TimeLimit::Clock::time_point started;  ///< start of the process
  bool costs = false;                    ///< whether to measure RunPlan::costs
};

/// Measures steps, threads, larger batches, a validation, a save and a report of a run that has not
/// begun, in this process; writes nothing. The number of threads of the process is that of the
/// config when it returns.
///
/// computer  of the run, before its first step; afterwards it has computed some steps
/// throws    NumericError from a step; kernels::OutOfMemory.
RunPlan plan_run(StepComputer& computer, const PlanOptions& options);

}  // namespace tapestry
