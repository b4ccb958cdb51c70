// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/recording/event_log.h"
#include "train/recording/run_events.h"
#include "train/recording/weights.h"

namespace tapestry {

/// The values of a step, as the protocol buffer `tensorboard.Summary`.
class EventSummary {
 public:
  /// The value is stored as float32, as TensorBoard expects it.
  void add_scalar(std::string_view tag, double value);
  /// rows  of Markdown, all of the same length; the first one is the heading
  void add_table(std::string_view tag, const std::vector<std::vector<std::string>>& rows);
  void add_histogram(std::string_view tag, const WeightStatistics& statistics);

  /// The encoded message.
  const std::string& bytes() const { return bytes_; }

 private:
  void add(std::string_view tag, std::string_view value);

  std::string bytes_;
};

/// An event file of TensorBoard: records of the TFRecord format (length, CRC-32C, protocol buffer
/// `tensorboard.Event`, CRC-32C), in the order of their steps.
///
/// Formats: tensorboard/compat/proto/{event,summary,tensor}.proto of TensorBoard 2.
class EventFile {
 public:
  /// Continues the file `path`, or creates it, as drop_after(step) does.
  EventFile(std::filesystem::path path, std::uint64_t step);

  /// Appends the values of a step, which is not before last_step().
  void add(std::uint64_t step, const EventSummary& summary);

  /// Removes the records of later steps, and everything from the first invalid record on.
  void drop_after(std::uint64_t step);

  /// The step of the last record; 0 without records.
  std::uint64_t last_step() const { return last_step_; }

  /// Why the file cannot be written; it is not written again then.
  const std::optional<std::string>& problem() const { return file_.problem(); }

 private:
  AppendedFile file_;
  std::uint64_t last_step_ = 0;
};

/// The folder of TensorBoard's event files in a run directory.
inline constexpr const char* tensorboard_folder_name = "tensorboard";
/// The name of each of these files.
inline constexpr const char* event_file_name = "events.out.tfevents.0.tapestry";

/// The event files of a run, which `tensorboard --logdir RUN` reads:
///
///   train/events.out.tfevents.0.tapestry       the columns of rows of training in metrics.csv
///   validation/events.out.tfevents.0.tapestry  validation rows and records
///
/// The files have the rows of metrics.csv, each once, however often the run was killed and
/// resumed. A run does not fail if they cannot be written.
class TensorBoardLog {
 public:
  /// Continues the files in `folder`, or creates them, with the rows of `metrics_csv`, which is
  /// valid; see set_rows().
  TensorBoardLog(const std::filesystem::path& folder, const std::string& metrics_csv);

  /// Removes the events of later steps than the rows of a split, and adds the rows that are
  /// missing.
  void set_rows(const std::string& metrics_csv);

  /// Adds the rows that were appended to the table since the last call.
  void add_rows(const std::string& metrics_csv);

  /// Adds the record of the last row of validation: memory, samples, histograms of weights and
  /// gradients, update ratios.
  void add(const ValidationRecord& record);

  /// Why a file cannot be written; it is not written again then.
  std::optional<std::string> problem() const;

 private:
  void add_new_rows(std::string_view rows);

  std::optional<std::string> folder_problem_;
  std::vector<std::string> columns_;
  std::size_t known_bytes_ = 0;  ///< bytes of the table
  std::optional<EventFile> training_, validation_;
};

}  // namespace tapestry
