#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "train/inference/evaluator.h"
#include "train/loop/weight_watch.h"

namespace tapestry {

/// The training set of a run, and how much of it the model predicts.
struct TrainingRecord {
  std::uint64_t examples = 0;  ///< of an epoch
  std::uint64_t tokens = 0;    ///< of an epoch; 0 for images
  std::uint64_t epochs = 0;    ///< completed before the validation
  SampleAccuracy sample{};     ///< with the weights that were validated

  friend bool operator==(const TrainingRecord&, const TrainingRecord&) = default;
};

/// What a run records at a validation, besides the scores: the event `validation`. Its members are
/// those of this struct; numbers have 6 significant digits. All but `resident_bytes` is the same
/// however often the run was resumed, except that a validation that had been interrupted has
/// neither gradients nor update ratios.
struct ValidationRecord {
  std::uint64_t step = 0;                    ///< of the validation
  std::uint64_t resident_bytes = 0;          ///< memory of the process; 0: unknown
  std::vector<ShownExample> samples{};       ///< see train.samples
  std::vector<BlockRecord> blocks{};         ///< in the order of the parameters
  std::optional<TrainingRecord> training{};  ///< absent without training examples to score
};

/// The fields of the event.
nlohmann::ordered_json to_json(const ValidationRecord& record);

/// The records in the untrusted text of an events.jsonl.
struct ValidationRecords {
  std::vector<ValidationRecord> records{};  ///< by step, each later than the one before
  std::size_t ignored_lines = 0;            ///< from the first that is not valid on
};

/// Reads the events `validation`, see read_events(). Of records of the same step the last one
/// counts.
ValidationRecords read_validations(std::string_view events);

}  // namespace tapestry
