#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "train/platform/appended_file.h"

namespace tapestry {

/// The lines of a StepLog.
struct StepLines {
  std::string_view heading;      ///< the first line; empty: there is none
  std::size_t longest_line = 0;  ///< in bytes; a longer one is not valid
  /// The step that a line is about; nullopt if the line is not valid.
  std::optional<std::uint64_t> (*parse_step)(std::string_view line) = nullptr;
};

/// The step in the first field of a row with as many fields as the heading; nullopt for another
/// line.
std::optional<std::uint64_t> parse_csv_step(std::string_view row, std::string_view heading);

/// A file of a run directory to which lines are appended at once, in the order of their steps.
/// Lines of steps that a resumed run repeats replace those of the earlier process. The file is not
/// part of what resumes bit-identically, and a run does not fail if it cannot be written.
class StepLog {
 public:
  /// Continues the file `path`, or creates it. Removes an incomplete last line, as a crash leaves
  /// it, and what drop_after(step) removes.
  StepLog(std::filesystem::path path, const StepLines& lines, std::uint64_t step);

  /// Appends a line, which ends with a line feed.
  void append(const std::string& line) { file_.append(line); }

  /// Removes the lines of later steps, and everything from the first invalid line on.
  void drop_after(std::uint64_t step);

  /// Why the file cannot be written; it is not written again then.
  const std::optional<std::string>& problem() const { return file_.problem(); }

 private:
  AppendedFile file_;
  StepLines lines_;
};

}  // namespace tapestry
