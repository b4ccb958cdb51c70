#include "train/plan/run_plan.h"

#include <algorithm>
#include <numeric>

#include "train/plan/run_measurement.h"
#include "train/plan/setting_trials.h"
#include "train/platform/machine.h"

namespace tapestry {
namespace {

/// How many of the steps 1 to `steps` are multiples of `every`.
std::uint64_t count_multiples(std::uint64_t steps, std::uint64_t every) { return steps / every; }

/// How many of them are multiples of both.
std::uint64_t count_common(std::uint64_t steps, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t factor = a / std::gcd(a, b);
  return factor > steps / b ? 0 : steps / (factor * b);
}

/// The cores that other programs used between two measurements.
double busy_cores(const std::optional<ProcessorTime>& before,
                  const std::optional<ProcessorTime>& after) {
  if (!before || !after || after->now <= before->now) return 0.0;
  const double others = (after->all - after->own) - (before->all - before->own);
  return std::max(0.0, others / (after->now - before->now));
}

}  // namespace

std::uint64_t count_validations(const TrainOptions& options, bool has_validation_set) {
  if (!has_validation_set) return 0;
  const bool last_is_due = options.steps % options.validate_every == 0;
  return count_multiples(options.steps, options.validate_every) + (last_is_due ? 0 : 1);
}

Occasions count_saves(const TrainOptions& options, bool has_validation_set) {
  const bool last_is_due = options.steps % options.save_every == 0;
  const std::uint64_t due = count_multiples(options.steps, options.save_every);
  Occasions saves{.fewest = due + (last_is_due ? 0 : 1), .most = 0};
  saves.most = saves.fewest;
  if (has_validation_set) {
    saves.most = due + count_validations(options, true) -
                 count_common(options.steps, options.save_every, options.validate_every);
    if (last_is_due && options.steps % options.validate_every != 0) --saves.most;
  }
  return saves;
}

std::uint64_t RunPlan::steps_per_epoch() const {
  return (epoch.batches + accumulate - 1) / accumulate;
}

double RunPlan::padding_share() const {
  if (!has_lengths || epoch.positions == 0) return 0.0;
  return static_cast<double>(epoch.padding) / static_cast<double>(epoch.positions);
}

RunPlan plan_run(StepComputer& computer, const PlanOptions& options) {
  RunPlan plan;
  plan.available = read_available_memory();
  const auto before = read_processor_time();
  RunMeasurement measurement(computer, options, plan);
  measurement.describe();
  measurement.prepare_memory();
  measurement.measure_steps();
  if (options.costs) measurement.measure_costs();
  measurement.measure_validation();
  measurement.measure_save();
  measurement.measure_report();
  plan.peak_memory = read_peak_resident_bytes();  // before what a run does not do
  SettingTrials trials(computer, options, plan);
  trials.measure_threads();
  trials.measure_larger_batch();
  trials.try_batches_by_tokens();
  plan.busy_cores = busy_cores(before, read_processor_time());
  return plan;
}

}  // namespace tapestry
