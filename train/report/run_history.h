// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/recording/run_events.h"
#include "train/recording/time_use.h"
#include "train/report/curve.h"

namespace tapestry {

/// A curve of a run: a column of metrics.csv, or a value of events.jsonl over the steps.
struct NamedCurve {
  std::string name;         ///< "loss"
  bool validation = false;  ///< true: validation set; false: training set
  Curve curve;              ///< values over the steps
};

/// A line of train.log.
struct LogLine {
  std::string time;      ///< "2026-11-23 19:54:24", local time
  std::string text;      ///< message without the time
  bool warning = false;  ///< whether the text begins with "warning: "
};

/// The JSON of the last `tapestry evaluate` of a run, without examples. Its member `overrides` has
/// the overrides of that command.
inline constexpr const char* evaluation_file_name = "evaluation.json";

/// The maximum number of validation records that a report shows.
inline constexpr std::size_t max_records = 60;

/// Contents of the files of a run directory other than checkpoints.
struct RunHistory {
  std::vector<NamedCurve> curves;         ///< curves that have values
  std::vector<ProcessTime> processes;     ///< processes in the order of their start
  std::vector<ValidationRecord> records;  ///< evenly spaced if there are more than `max_records`,
                                          ///< including the last
  std::vector<LogLine> log;               ///< lines except progress, validations and samples
  std::string profile;                    ///< last table of `train --profile` in the log
  std::size_t log_lines_left_out = 0;     ///< number of lines omitted at the start of a long log
  std::vector<std::string> notes;         ///< files that cannot be read, with reasons
};

/// The curves of the text of a metrics.csv file.
///
/// place   prefix of error messages
/// throws  CheckpointError like require_metrics()
std::vector<NamedCurve> metric_curves(std::string_view csv, std::string_view place);

/// Makes the training loss of a run with label smoothing comparable to the validation loss. Renames
/// the training curve `loss` to `training_objective`, and adds a training curve `loss`, which is
/// ln(perplexity) and excludes label smoothing.
void separate_label_smoothing(std::vector<NamedCurve>& curves);

/// Reads metrics.csv, events.jsonl and train.log. Missing files are not an error: a run that has
/// just started has no files. Adds a note for each file that cannot be read or is invalid, and for
/// files of earlier versions, such as timing.csv, which are ignored.
RunHistory read_run_history(const std::filesystem::path& run_directory);

}  // namespace tapestry
