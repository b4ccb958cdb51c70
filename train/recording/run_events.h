// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/parameters.h"
#include "train/inference/evaluator.h"
#include "train/recording/event_log.h"
#include "train/recording/weights.h"

/// Digests of the tensors of a model after a step. With them the first step and tensor are found in
/// which two runs differ, exactly if each step has an event (train.digest_every).
namespace tapestry {

/// The digest of the values of a tensor, in row-major order: the low 32 bits of XXH3 of their
/// bytes.
std::uint32_t digest_of_values(std::span<const std::byte> bytes);

/// The names of the tensors with digests: parameters, then buffers.
std::vector<std::string> digest_names(const Parameters& parameters);

/// The digests of all parameters, then of all buffers, in the order of Parameters.
std::vector<std::uint32_t> compute_digests(const Parameters& parameters);

/// Adds an event `digests` to the log, of the present values: `digests`, one of 8 hexadecimal
/// digits for each tensor. The first event of a process also has `tensors`, their names.
///
/// with_names  whether it is the first event, or the first after events were dropped
void add_digests(EventLog& log, std::uint64_t step, const Parameters& parameters, bool with_names);

/// The digests of a run.
struct DigestTable {
  std::vector<std::string> names{};      ///< names of the tensors
  std::vector<std::uint64_t> steps{};    ///< each later than the one before
  std::vector<std::uint32_t> digests{};  ///< (steps, names)

  /// The digests of a row.
  std::span<const std::uint32_t> row(std::size_t index) const {
    return std::span(digests).subspan(index * names.size(), names.size());
  }
  /// The row of a step; nullopt if it was not recorded.
  std::optional<std::size_t> find(std::uint64_t step) const;
};

/// Reads the events `digests`, see read_events(), up to the first with other tensors.
DigestTable read_digests(std::string_view events);

/// The digests of two runs of models with the same tensors, compared at the steps that both have.
struct DigestComparison {
  std::uint64_t equal_step = 0;        ///< the last step with equal digests; 0: none
  std::uint64_t step = 0;              ///< the first step with other ones; 0: none
  std::vector<std::string> tensors{};  ///< tensors that differ then, in the order of the model
};

/// nullopt if they have other tensors, or no step in common.
std::optional<DigestComparison> compare_digests(const DigestTable& a, const DigestTable& b);

/// The training set of a run, and how much of it the model predicts.
struct TrainingRecord {
  std::uint64_t examples = 0;  ///< examples of an epoch
  std::uint64_t tokens = 0;    ///< tokens of an epoch; 0 for images
  std::uint64_t epochs = 0;    ///< completed before the validation
  SampleAccuracy sample{};     ///< with the weights that were validated

  friend bool operator==(const TrainingRecord&, const TrainingRecord&) = default;
};

/// The event `validation`: records of a validation in addition to its scores. The event has the
/// members of this struct; numbers have 6 significant digits. A resumed run records the same values
/// except `resident_bytes`. A validation that was interrupted has neither gradients nor update
/// ratios.
struct ValidationRecord {
  std::uint64_t step = 0;                    ///< step of the validation
  std::uint64_t resident_bytes = 0;          ///< memory of the process; 0: unknown
  std::vector<ShownExample> samples{};       ///< see train.samples
  std::vector<BlockRecord> blocks{};         ///< in the order of the parameters
  std::optional<TrainingRecord> training{};  ///< absent without training examples to score
};

/// The fields of the event.
nlohmann::ordered_json to_json(const ValidationRecord& record);

/// The records in the untrusted text of an events.jsonl.
struct ValidationRecords {
  std::vector<ValidationRecord> records{};  ///< in ascending order of steps
  std::size_t ignored_lines = 0;            ///< from the first that is not valid on
};

/// Reads the events `validation`, see read_events(). Of records of the same step the last one
/// counts.
ValidationRecords read_validations(std::string_view events);

}  // namespace tapestry
