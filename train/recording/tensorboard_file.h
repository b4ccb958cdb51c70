// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/recording/event_log.h"
#include "train/recording/weights.h"

namespace tapestry {

/// The values of a step, as the protocol buffer `tensorboard.Summary`.
class EventSummary {
 public:
  /// Adds a scalar, stored as float32, which TensorBoard expects.
  void add_scalar(std::string_view tag, double value);
  /// Adds a text table.
  ///
  /// rows  cells in Markdown; all rows have the same length, the first row is the heading
  void add_table(std::string_view tag, const std::vector<std::vector<std::string>>& rows);
  void add_histogram(std::string_view tag, const WeightStatistics& statistics);

  /// The encoded protocol buffer.
  const std::string& bytes() const { return bytes_; }

 private:
  void add(std::string_view tag, std::string_view value);

  std::string bytes_;
};

/// An event file of TensorBoard: TFRecord records (length, CRC-32C, protocol buffer
/// `tensorboard.Event`, CRC-32C) in the order of their steps.
///
/// Formats: tensorboard/compat/proto/{event,summary,tensor}.proto of TensorBoard 2.
class EventFile {
 public:
  /// Opens or creates the file `path`, and removes the records that drop_after(step) removes.
  EventFile(std::filesystem::path path, std::uint64_t step);

  /// Appends the values of a step.
  ///
  /// step  >= last_step()
  void add(std::uint64_t step, const EventSummary& summary);

  /// Removes the records after `step`, and all records from the first invalid record on.
  void drop_after(std::uint64_t step);

  /// The step of the last record; 0 if the file has no records.
  std::uint64_t last_step() const { return last_step_; }

  /// The first failure, after which nothing is written; nullopt without a failure.
  const std::optional<std::string>& problem() const { return file_.problem(); }

 private:
  AppendedFile file_;
  std::uint64_t last_step_ = 0;
};

}  // namespace tapestry
