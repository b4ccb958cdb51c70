#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/recording/weights.h"
#include "train/report/run_history.h"

/// Parts of the data of a report, as JSON.
namespace tapestry {

/// Processes, changes of the run by line, profile and log.
nlohmann::ordered_json history_json(const RunHistory& history, const std::string& changes);

/// What all processes of a run have done with their time: `seconds`, `parts` (name, seconds),
/// `processor_seconds` and `other_seconds` (null if they are not known), `threads` and `cores` of
/// the last process, `positions`, `padding`. Null if the run has recorded none.
nlohmann::ordered_json time_json(const std::vector<ProcessTime>& processes);

/// Samples and blocks over the validations; null if there are none.
nlohmann::ordered_json recording_json(const std::vector<ValidationRecord>& records);

/// The distributions of the weights of a model.
nlohmann::ordered_json weights_json(const std::vector<BlockWeights>& weights);

}  // namespace tapestry
