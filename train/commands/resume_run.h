#pragma once

#include "train/commands/commands.h"
#include "train/system/time_limit.h"

namespace tapestry {

/// Goes on with a run from its newest whole checkpoint. A finished run, and one whose config or
/// data are not what they were, is left untouched. `started` is when the process did.
int resume_run(const TrainArguments& arguments, TimeLimit::Clock::time_point started);

}  // namespace tapestry
