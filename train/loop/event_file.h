#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/loop/weight_statistics.h"
#include "train/system/appended_file.h"

namespace tapestry {

/// A table of texts that TensorBoard shows; the first row is the heading.
struct TextTable {
  std::size_t columns = 0;         ///< >= 1
  std::vector<std::string> cells;  ///< (rows, columns), row-major; Markdown
};

/// The values of a step, as the protocol buffer `tensorboard.Summary`.
class EventSummary {
 public:
  /// The value is stored as float32, as TensorBoard expects it.
  void add_scalar(std::string_view tag, double value);
  void add_table(std::string_view tag, const TextTable& table);
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

  /// The step of the last record; 0 if there is none.
  std::uint64_t last_step() const { return last_step_; }

  /// Why the file cannot be written; it is not written again then.
  const std::optional<std::string>& problem() const { return file_.problem(); }

 private:
  AppendedFile file_;
  std::uint64_t last_step_ = 0;
};

}  // namespace tapestry
