// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/models/trained_model.h"
#include "train/recording/weights.h"
#include "train/report/report_data.h"
#include "train/report/run_history.h"

/// Parts of the data of a report, as JSON.
namespace tapestry {

/// A curve reduced to about `max_points` points, see extremes() and part_means().
nlohmann::ordered_json curve_json(const NamedCurve& named, std::size_t max_points);

/// Mean and standard deviation of each curve that all runs of a group have.
nlohmann::ordered_json mean_curves_json(const std::vector<const RunHistory*>& group,
                                        std::size_t max_points);

/// The history of a run: `processes`, `changes` (lines), `profile`, `log` and `log_lines_left_out`.
///
/// changes  changes of the run, one per line
nlohmann::ordered_json history_json(const RunHistory& history, const std::string& changes);

/// Time use of all processes of a run: `seconds`, `parts` (name, seconds), `processor_seconds` and
/// `other_seconds` (null if unknown), `threads` and `cores` of the last process, `positions`,
/// `padding`. Null without processes.
nlohmann::ordered_json time_json(const std::vector<ProcessTime>& processes);

/// Samples and blocks of all validations; null without validations.
nlohmann::ordered_json recording_json(const std::vector<ValidationRecord>& records);

/// The distributions of the weights of a model.
nlohmann::ordered_json weights_json(const std::vector<BlockWeights>& weights);

/// Results of a model on held-out data: `held_out` with examples and accuracy, `attention` with
/// the weights of all heads, `patches` of images. Empty without held-out data.
///
/// notes  receives a note for each part that is left out
nlohmann::ordered_json held_out_json(const TrainedModel& trained, const Corpus& corpus,
                                     const ReportOptions& options, std::vector<std::string>& notes);

}  // namespace tapestry
