#pragma once

#include <cstddef>
#include <vector>

#include "data/corpus.h"
#include "data/examples.h"
#include "train/config/config.h"
#include "train/plan/run_plan.h"
#include "train/step_computer.h"
#include "train/tasks/task.h"

namespace tapestry {

/// Measures what a run will do, with the settings of its config, for plan_run(). Writes no files.
class RunMeasurement {
 public:
  /// All arguments must outlive the object.
  ///
  /// plan  gets the results
  RunMeasurement(StepComputer& computer, const PlanOptions& options, RunPlan& plan)
      : computer_(computer), options_(options), plan_(plan) {}

  /// Model, epoch, and how often the run validates and saves: known without a measurement.
  void describe();
  /// Computes the largest step, as a run does at its start.
  void prepare_memory();
  /// Computes the first steps of the run. The very first one is left out: it allocates memory.
  void measure_steps();
  void measure_validation();
  void measure_save();
  /// The parts of a step, from which simulate_step() computes that of several processes.
  void measure_costs();
  void measure_report();

 private:
  double time_scores(const std::vector<Example>& examples, std::size_t decoded) const;
  void measure_scoring();
  void measure_decoding();
  const Config& config() const { return computer_.config(); }
  const Corpus& corpus() const { return computer_.corpus(); }
  const Task& task() const { return find_task(config()); }
  bool is_long(double seconds) const { return seconds > options_.seconds; }

  StepComputer& computer_;
  const PlanOptions& options_;
  RunPlan& plan_;
};

}  // namespace tapestry
