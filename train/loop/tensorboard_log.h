#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "train/loop/event_file.h"
#include "train/loop/validation_record.h"

namespace tapestry {

/// The folder of TensorBoard's event files in a run directory.
inline constexpr const char* tensorboard_folder_name = "tensorboard";
/// The name of each of these files.
inline constexpr const char* event_file_name = "events.out.tfevents.0.tapestry";

/// The event files of a run, which `tensorboard --logdir RUN` reads:
///
///   train/events.out.tfevents.0.tapestry       the columns of rows of training in metrics.csv
///   validation/events.out.tfevents.0.tapestry  those of validation, and validation records
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
  std::size_t known_bytes_ = 0;  ///< of the table
  std::optional<EventFile> training_, validation_;
};

}  // namespace tapestry
