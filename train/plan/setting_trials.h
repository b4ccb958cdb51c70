#pragma once

#include <cstddef>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "train/config/config.h"
#include "train/plan/run_plan.h"
#include "train/step_computer.h"
#include "train/tasks/task.h"

namespace tapestry {

/// The numbers of threads to measure for a machine with `cores` that is set to `threads`: 1, 2, 4
/// ..., the number of cores and that of the config, in ascending order; each number up to 8 cores.
std::vector<std::size_t> thread_counts(std::size_t cores, std::size_t threads);

/// Tries other settings than those of the config, for plan_run(): steps with other numbers of
/// threads and larger batches, and the padding of batches of a number of tokens.
class SettingTrials {
 public:
  /// All arguments must outlive the object.
  ///
  /// plan  has the time of a step, and gets the results
  SettingTrials(StepComputer& computer, const PlanOptions& options, RunPlan& plan)
      : computer_(computer), options_(options), plan_(plan) {}

  void measure_threads();
  void measure_larger_batch();
  void try_batches_by_tokens();

 private:
  using Step = std::vector<Batch>;

  std::vector<Step> sample_steps(const Config& config, std::size_t count) const;
  std::size_t sample_size(std::size_t settings) const;
  double measure_seconds(const Step& step);
  const Config& config() const { return computer_.config(); }
  const Corpus& corpus() const { return computer_.corpus(); }
  const Task& task() const { return find_task(config()); }
  bool is_long(double seconds) const { return seconds > options_.seconds; }

  static constexpr std::size_t repetitions = 3;

  StepComputer& computer_;
  const PlanOptions& options_;
  RunPlan& plan_;
};

}  // namespace tapestry
