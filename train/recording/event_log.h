// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/io/file.h"

namespace tapestry {

/// A file that grows at its end while a run is in progress, such as events.jsonl. After the first
/// failure it stays as it is: every later call does nothing, and problem() has the reason.
class AppendedFile {
 public:
  /// Opens the file `path` for reading and appending, or creates it. A symbolic link is not
  /// followed.
  explicit AppendedFile(std::filesystem::path path);

  /// The size in bytes; nullopt after a failure.
  std::optional<std::uint64_t> size();

  /// Reads up to bytes.size() bytes from `offset`; returns how many, 0 at the end of the file and
  /// after a failure.
  std::size_t read(std::uint64_t offset, std::span<char> bytes);

  /// Appends all bytes, or none if the file system is full.
  void append(std::string_view bytes);

  /// Removes what follows the first `size` bytes.
  void truncate(std::uint64_t size);

  /// Why the file cannot be written: "PATH: could not be written: REASON".
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  void fail(const std::string& what);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::optional<std::string> problem_;
};

/// The name of the file in a run directory.
inline constexpr const char* events_file_name = "events.jsonl";

/// The events.jsonl of a run: what is measured and recorded in addition to metrics.csv, as one JSON
/// object per line, in the order of the steps:
///
///     {"step":100,"event":"speed", ...}       see add_speed()
///     {"step":100,"event":"time", ...}        see TimeRecorder
///     {"step":100,"event":"digests", ...}     see add_digests()
///     {"step":100,"event":"validation", ...}  see ValidationRecord
///
/// Lines of steps that a resumed run repeats replace the lines of the earlier process. The file is
/// not part of what resumes bit-identically, and a run does not fail if it cannot be written.
class EventLog {
 public:
  /// Continues the file `path`, or creates it. Removes an incomplete last line, as a crash leaves
  /// it, and what drop_after() removes.
  EventLog(std::filesystem::path path, std::uint64_t step, std::uint64_t validation_step);

  /// Appends an event at once.
  ///
  /// fields  an object
  void add(std::uint64_t step, std::string_view event, const nlohmann::ordered_json& fields);

  /// Removes the events of later steps, validations of later steps than `validation_step`, and
  /// everything from the first invalid line on.
  void drop_after(std::uint64_t step, std::uint64_t validation_step);

  /// Why the file cannot be written; it is not written again then.
  const std::optional<std::string>& problem() const { return file_.problem(); }

 private:
  AppendedFile file_;
};

/// Calls read(step, object) for each event of this name in the untrusted text of an events.jsonl.
/// Stops at the first complete line that is not an event, whose step is earlier than on the line
/// before, or for which `read` throws nlohmann::json::exception. Returns the number of
/// lines from there.
std::size_t read_events(
    std::string_view text, std::string_view event,
    const std::function<void(std::uint64_t, const nlohmann::ordered_json&)>& read);

/// The text of the events.jsonl of a run directory; empty if the file is missing, and with a
/// warning if it cannot be read.
std::string read_events_file(const std::filesystem::path& run);

// ---- Numbers of a recording and of a report as JSON.

/// A number with 6 significant digits; null if it is not finite.
nlohmann::ordered_json json_number(double value);

/// A list of such numbers.
nlohmann::ordered_json json_numbers(std::span<const double> values);

/// The number of a json_number(); NaN for null.
///
/// throws  nlohmann::json::exception for a value of another type
double number_of(const nlohmann::ordered_json& json);

}  // namespace tapestry
