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

/// The events `digests` and `validation` of a run. Digests of a model's tensors show the first step
/// at which two runs differ, and which tensors differ. The step is exact if every step has digests
/// (train.digest_every).
namespace tapestry {

/// The digest of the values of a tensor: the low 32 bits of XXH3 of their bytes.
///
/// bytes  the values in row-major order
std::uint32_t digest_of_values(std::span<const std::byte> bytes);

/// The names of the tensors with digests: parameters, then buffers.
std::vector<std::string> digest_names(const Parameters& parameters);

/// The digests of all parameters, then of all buffers, in the order of digest_names().
std::vector<std::uint32_t> compute_digests(const Parameters& parameters);

/// Adds an event `digests` of the current values. Its member `digests` has 8 hexadecimal digits for
/// each tensor. The first event of a process also has a member `tensors` with the names of the
/// tensors.
///
/// with_names  whether this is the first event of a process, or the first event after events were
///             dropped
void add_digests(EventLog& log, std::uint64_t step, const Parameters& parameters, bool with_names);

/// The digests of a run.
struct DigestTable {
  std::vector<std::string> names{};      ///< names of the tensors
  std::vector<std::uint64_t> steps{};    ///< in strictly ascending order
  std::vector<std::uint32_t> digests{};  ///< (steps, names), row-major

  /// The digests at the step steps[index].
  std::span<const std::uint32_t> row(std::size_t index) const {
    return std::span(digests).subspan(index * names.size(), names.size());
  }
  /// The index of `step` in `steps`; nullopt if it was not recorded.
  std::optional<std::size_t> find(std::uint64_t step) const;
};

/// Reads the events `digests`, up to the first event that is invalid or has different tensors; see
/// read_events().
DigestTable read_digests(std::string_view events);

/// A comparison of the digests of two runs at the steps that both recorded.
struct DigestComparison {
  std::uint64_t equal_step = 0;        ///< last equal step before the first difference, or 0
  std::uint64_t step = 0;              ///< first step with different digests, or 0
  std::vector<std::string> tensors{};  ///< tensors that differ at `step`, in the order of the model
};

/// Compares two runs. Returns nullopt if their tensors differ or if they have no common step.
std::optional<DigestComparison> compare_digests(const DigestTable& a, const DigestTable& b);

/// The size of the training set, and the model's accuracy on a sample of it.
struct TrainingRecord {
  std::uint64_t examples = 0;  ///< number of examples per epoch
  std::uint64_t tokens = 0;    ///< number of tokens per epoch; 0 for images
  std::uint64_t epochs = 0;    ///< number of epochs completed before the validation
  SampleAccuracy sample{};     ///< accuracy with the validated weights

  friend bool operator==(const TrainingRecord&, const TrainingRecord&) = default;
};

/// The event `validation`: measurements at a validation in addition to its scores. The event has
/// the members of this struct; numbers have 6 significant digits. A resumed run records the same
/// values except `resident_bytes`. A validation that was interrupted and repeated has neither
/// gradients nor update ratios.
struct ValidationRecord {
  std::uint64_t step = 0;                    ///< step of the validation
  std::uint64_t resident_bytes = 0;          ///< resident memory of the process; 0 if unknown
  std::vector<ShownExample> samples{};       ///< see train.samples
  std::vector<BlockRecord> blocks{};         ///< blocks in the order of the parameters
  std::optional<TrainingRecord> training{};  ///< nullopt without training examples to score
};

/// The members of the event.
nlohmann::ordered_json to_json(const ValidationRecord& record);

/// The validation records of an events.jsonl.
struct ValidationRecords {
  std::vector<ValidationRecord> records{};  ///< records in ascending order of steps
  std::size_t ignored_lines = 0;            ///< number of lines from the first invalid line on
};

/// Reads the events `validation`; see read_events(). If several records have the same step, keeps
/// the last record.
ValidationRecords read_validations(std::string_view events);

}  // namespace tapestry
