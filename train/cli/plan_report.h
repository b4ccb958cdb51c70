#pragma once

#include <string>
#include <vector>

#include "train/cli/parallel_plan.h"
#include "train/plan/plan_limits.h"
#include "train/plan/run_plan.h"

namespace tapestry::plan_cli {

/// What `tapestry plan` prints.
struct PlanReport {
  std::vector<std::string> description;  ///< describe_run()
  std::string largest_step;              ///< Task::describe_size()
  std::string targets;                   ///< TaskWords::targets
  RunPlan plan;
  std::vector<Limit> limits;
  ParallelPlan parallel;
};

/// Prints the report on standard output, line by line (plan_text.cpp).
void print_text(const PlanReport& report);

/// Prints the report on standard output, as a JSON object (plan_json.cpp).
void print_json(const PlanReport& report);

}  // namespace tapestry::plan_cli
