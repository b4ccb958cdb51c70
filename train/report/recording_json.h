#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "train/recording/run_recording.h"

namespace tapestry {

/// The validations of a run for its report: `samples` with their outputs over steps, and `blocks`
/// with statistics and histograms of weights and gradients over steps. Null without records.
nlohmann::ordered_json recording_json(const std::vector<ValidationRecord>& records);

}  // namespace tapestry
