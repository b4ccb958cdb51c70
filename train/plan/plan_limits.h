#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/plan/run_plan.h"

namespace tapestry {

/// What makes a run slow or impossible, and what to change.
struct Limit {
  std::string what;    ///< "padding is 35 % of all positions"
  std::string change;  ///< "set train.batch_tokens=1,200, with which it is 4.1 %"; may be empty
};

/// The limits that a plan shows, the most important ones first: those that prevent the run, then
/// those of its speed.
std::vector<Limit> find_limits(const RunPlan& plan, const Config& config);

}  // namespace tapestry
