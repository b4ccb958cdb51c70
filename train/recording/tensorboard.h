// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/recording/run_events.h"
#include "train/recording/tensorboard_file.h"

namespace tapestry {

/// The folder of TensorBoard's event files in a run directory.
inline constexpr const char* tensorboard_folder_name = "tensorboard";
/// The name of each event file.
inline constexpr const char* event_file_name = "events.out.tfevents.0.tapestry";

/// The event files of a run, which `tensorboard --logdir RUN` reads:
///
///   train/events.out.tfevents.0.tapestry       training rows of metrics.csv
///   validation/events.out.tfevents.0.tapestry  validation rows of metrics.csv, ValidationRecords
///
/// The files have each row of metrics.csv once, even if the run was killed and resumed. If the
/// files cannot be written, the run continues.
class TensorBoardLog {
 public:
  /// Opens or creates the files in `folder`, and calls set_rows(metrics_csv).
  ///
  /// metrics_csv  a valid metrics.csv
  TensorBoardLog(const std::filesystem::path& folder, const std::string& metrics_csv);

  /// Makes the files match the table: removes events after the last row of each split, and adds
  /// missing rows.
  void set_rows(const std::string& metrics_csv);

  /// Adds the rows that were appended to the table since the last call.
  void add_rows(const std::string& metrics_csv);

  /// Adds the record of the last validation row: memory, samples, histograms of weights and
  /// gradients, update ratios. Ignores a record of any other step.
  void add(const ValidationRecord& record);

  /// The first failure of a file, after which that file is not written again; nullopt without a
  /// failure.
  std::optional<std::string> problem() const;

 private:
  void add_new_rows(std::string_view rows);

  std::optional<std::string> folder_problem_;
  std::vector<std::string> columns_;
  std::size_t known_bytes_ = 0;  ///< size of the table at the last call
  std::optional<EventFile> training_, validation_;
};

}  // namespace tapestry
