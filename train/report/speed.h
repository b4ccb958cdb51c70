#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/report/run_history.h"

/// What a run did with its time, for its report.
namespace tapestry {

/// The sums over all processes of a run. nullopt if it has recorded none.
std::optional<ProcessTimeUse> total_time_use(const std::vector<ProcessTimeUse>& processes);

/// What made training slow, in sentences with a remedy, the greatest part of the time first. Each
/// needs the data that support it.
///
/// From time_use.csv, shares of the time since a process began to train:
///
/// - waiting for batches 10 %, validation 10 %, saving 10 %, reports 10 %, recording 5 %
/// - train.detect_anomaly: the share of its checks
/// - a core or more that was free, and that the run had no thread for
/// - other programs that used cores which the threads of the run would have needed
/// - threads that waited for more than 35 % of the time, on cores that were free
/// - padding of at least 30 % of the positions of batches
///
/// Without time_use.csv, from timing.csv and the log: time outside of training steps of more than
/// 25 %, the last warning that other programs used the cores.
std::vector<std::string> speed_findings(const RunHistory& history, const Config& config);

/// The data of the section: `seconds`, `parts` (name, seconds), `processor_seconds` and
/// `other_seconds` (null if they are not known), `threads`, `cores`, `positions`, `padding` and
/// `processes`. Null if the run has recorded none.
nlohmann::ordered_json speed_json(const std::vector<ProcessTimeUse>& processes);

}  // namespace tapestry
