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

/// A file that a run appends to, such as events.jsonl. After the first failure, all calls do
/// nothing and problem() returns the reason.
class AppendedFile {
 public:
  /// Opens or creates the file `path` for reading and appending. Does not follow symbolic links.
  explicit AppendedFile(std::filesystem::path path);

  /// The size of the file in bytes; nullopt after a failure.
  std::optional<std::uint64_t> size();

  /// Reads up to bytes.size() bytes at `offset`. Returns the number of bytes read, which is 0 at
  /// the end of the file and after a failure.
  std::size_t read(std::uint64_t offset, std::span<char> bytes);

  /// Appends all bytes. If the file system is full, appends nothing.
  void append(std::string_view bytes);

  /// Truncates the file to `size` bytes.
  void truncate(std::uint64_t size);

  /// The first failure, "PATH: could not be written: REASON"; nullopt without a failure.
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  void fail(const std::string& what);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::optional<std::string> problem_;
};

/// The name of the event log in a run directory.
inline constexpr const char* events_file_name = "events.jsonl";

/// The events.jsonl of a run: measurements in addition to metrics.csv, as one JSON object per line
/// in the order of the steps:
///
///     {"step":100,"event":"speed", ...}       see add_speed()
///     {"step":100,"event":"time", ...}        see TimeRecorder
///     {"step":100,"event":"digests", ...}     see add_digests()
///     {"step":100,"event":"validation", ...}  see ValidationRecord
///
/// If a resumed run repeats steps, their lines replace the lines of the earlier process. Unlike the
/// checkpoints, the file of a resumed run may differ from the file of an uninterrupted run. If the
/// file cannot be written, the run continues.
class EventLog {
 public:
  /// Opens or creates the file `path`. Removes an incomplete last line, which a crash may leave,
  /// and the lines that drop_after() removes.
  EventLog(std::filesystem::path path, std::uint64_t step, std::uint64_t validation_step);

  /// Appends an event and writes it immediately.
  ///
  /// fields  a JSON object, the members after `step` and `event`
  void add(std::uint64_t step, std::string_view event, const nlohmann::ordered_json& fields);

  /// Removes events after `step`, validations after `validation_step`, and the first invalid line
  /// with all lines after it.
  void drop_after(std::uint64_t step, std::uint64_t validation_step);

  /// The first failure, after which nothing is written; nullopt without a failure.
  const std::optional<std::string>& problem() const { return file_.problem(); }

 private:
  AppendedFile file_;
};

/// Calls read(step, object) for each event named `event` in an events.jsonl. Stops at the first
/// complete line that is not an event, has an earlier step than the previous line, or makes `read`
/// throw nlohmann::json::exception. Returns the number of complete lines from that line on.
///
/// text  content of the file; may be untrusted
std::size_t read_events(
    std::string_view text, std::string_view event,
    const std::function<void(std::uint64_t, const nlohmann::ordered_json&)>& read);

/// Reads the events.jsonl of a run directory. Returns an empty text if the file is missing. If the
/// file cannot be read, warns and returns an empty text.
std::string read_events_file(const std::filesystem::path& run);

// ---- Numbers in events and reports as JSON.

/// A number with 6 significant digits; null if it is not finite.
nlohmann::ordered_json json_number(double value);

/// A list of numbers, each converted by json_number().
nlohmann::ordered_json json_numbers(std::span<const double> values);

/// The inverse of json_number(): NaN for null.
///
/// throws  nlohmann::json::exception for a value of the wrong type
double number_of(const nlohmann::ordered_json& json);

}  // namespace tapestry
