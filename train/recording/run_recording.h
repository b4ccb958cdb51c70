#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/inference/evaluator.h"
#include "train/recording/step_log.h"
#include "train/recording/weight_watch.h"

namespace tapestry {

/// The training set of a run, and how much of it the model predicts.
struct TrainingRecord {
  std::uint64_t examples = 0;  ///< of an epoch
  std::uint64_t tokens = 0;    ///< of an epoch; 0 for images
  std::uint64_t epochs = 0;    ///< completed before the validation
  SampleAccuracy sample{};     ///< with the weights that were validated

  friend bool operator==(const TrainingRecord&, const TrainingRecord&) = default;
};

/// What a run records at a validation, besides the scores.
struct ValidationRecord {
  std::uint64_t step = 0;                    ///< of the validation
  std::uint64_t resident_bytes = 0;          ///< memory of the process; 0: unknown
  std::vector<ShownExample> samples{};       ///< see train.samples
  std::vector<BlockRecord> blocks{};         ///< in the order of the parameters
  std::optional<TrainingRecord> training{};  ///< not in recordings of earlier versions
};

/// The recording.jsonl of a run: a JSON object for each validation, in a line, see StepLog. The
/// keys are those of ValidationRecord; numbers have 6 significant digits. All but `resident_bytes`
/// is the same however often the run was resumed, except that a validation that had been
/// interrupted has neither gradients nor update ratios.
class RunRecording {
 public:
  /// Continues the file `path`, or creates it, without records of steps after `step`.
  RunRecording(std::filesystem::path path, std::uint64_t step);

  /// Appends a record.
  void add(const ValidationRecord& record);

  /// Removes the records of later steps, and everything from the first invalid line on.
  void drop_after(std::uint64_t step) { log_.drop_after(step); }

  /// Why the file cannot be written; it is not written again then.
  const std::optional<std::string>& problem() const { return log_.problem(); }

 private:
  StepLog log_;
};

/// The name of the file in a run directory.
inline constexpr const char* recording_file_name = "recording.jsonl";

/// The content of a recording.jsonl.
struct ParsedRecording {
  std::vector<ValidationRecord> records{};  ///< by step, each later than the one before
  std::size_t ignored_lines = 0;            ///< from the first that is not valid on
};

/// The records in the untrusted text of a recording.jsonl, up to the first complete line that is
/// not valid or has an earlier step than the line before. Of lines of the same step the last one
/// counts.
ParsedRecording parse_recording(std::string_view text);

}  // namespace tapestry
