#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/recording/run_recording.h"
#include "train/recording/time_use_log.h"
#include "train/report/curve.h"

namespace tapestry {

/// A curve of a run with its name: a column of metrics.csv or timing.csv.
struct NamedCurve {
  std::string name;         ///< "loss"
  bool validation = false;  ///< of the validation set; else of training
  Curve curve;              ///< its values
};

/// A process of a run, as timing.csv shows it.
struct RunProcess {
  std::uint64_t first_step = 0;  ///< the first step that it logged
  std::uint64_t last_step = 0;   ///< the last step that it logged
  std::string ended{};           ///< time of day of the last logged step, in UTC
  double seconds = 0.0;          ///< from the start of training to the last logged step
  double step_seconds = 0.0;     ///< of these the time of training steps, without validations and
                                 ///< saves
};

/// An event of history.txt: a changed key, changed data, a step that was skipped.
struct RunChange {
  std::uint64_t step = 0;  ///< the number of steps done before it
  std::string text;        ///< "changed model.dropout: 0 -> 0.1"
};

/// A line of train.log.
struct LogLine {
  std::string time;      ///< "2026-11-23 19:54:24", local time
  std::string text;      ///< without the time
  bool warning = false;  ///< whether it begins with "warning: "
};

/// The number of records that a report shows at most.
inline constexpr std::size_t most_records = 60;

/// What the files of a run directory besides checkpoints record.
struct RunHistory {
  std::vector<NamedCurve> curves;         ///< curves without values are left out
  std::vector<RunProcess> processes;      ///< in order
  std::vector<ProcessTimeUse> time_use;   ///< of each process with a time_use.csv, in order
  std::vector<RunChange> changes;         ///< in order
  std::vector<ValidationRecord> records;  ///< of recording.jsonl; at most `most_records`
  std::vector<LogLine> log;               ///< without progress, validations and their samples
  std::string profile;                    ///< the last table of `train --profile` in the log
  std::size_t log_lines_left_out = 0;  ///< lines in the middle of a long log that are not in `log`
  std::vector<std::string> notes;      ///< files that cannot be read, and why
};

/// The curves of a metrics.csv.
///
/// place   prefix of error messages
/// throws  CheckpointError as require_metrics()
std::vector<NamedCurve> metric_curves(std::string_view csv, std::string_view place);

/// Makes the training loss of a run with label smoothing comparable with its validation loss, which
/// has none: the curve `loss` becomes `training_objective`, and ln(perplexity) is the new `loss`.
void separate_label_smoothing(std::vector<NamedCurve>& curves);

/// The events of the text of a history.txt; lines of another form are events of step 0.
std::vector<RunChange> history_changes(std::string_view text);

/// Reads metrics.csv, timing.csv, time_use.csv, history.txt, recording.jsonl and train.log. Missing
/// files are no error: a run that has just begun has none. A file that cannot be read or has other
/// content causes a note.
RunHistory read_run_history(const std::filesystem::path& run_directory);

}  // namespace tapestry
