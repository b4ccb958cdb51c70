#pragma once

#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/reader.h"

namespace tapestry {

/// Reports values that are fine each by itself but contradict one another, and values of keys that
/// the chosen task, optimiser or schedule does not use. Each problem is placed at one of the keys
/// involved that was given; a rule is skipped if one of its keys has a bad value.
void check_rules(const Config& config, const Origins& origins, ProblemList& problems);

}  // namespace tapestry
