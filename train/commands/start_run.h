#pragma once

#include "train/commands/commands.h"
#include "train/system/time_limit.h"

namespace tapestry {

/// Begins a run where none lies; nothing is written before all that a user would have to correct
/// has been looked at. `started` is when the process did.
int start_run(const TrainArguments& arguments, TimeLimit::Clock::time_point started);

}  // namespace tapestry
