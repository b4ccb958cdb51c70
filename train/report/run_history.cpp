// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/run_history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "data/io/error.h"
#include "data/io/utf8.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/run_directory.h"
#include "train/recording/event_log.h"

namespace tapestry {
namespace {

using Fields = std::vector<std::string_view>;

Fields split(std::string_view text, char separator) {
  Fields parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The complete lines of a text.
Fields complete_lines(std::string_view text) {
  Fields lines = split(text, '\n');
  lines.pop_back();
  return lines;
}

/// Parses a field of metrics.csv: NaN for a number out of the range of double, nullopt for other
/// text.
std::optional<double> parse_value(std::string_view text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) return std::numeric_limits<double>::quiet_NaN();
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

void add_point(Curve& curve, std::uint64_t step, double value) {
  if (!curve.steps.empty() && curve.steps.back() >= step) return;
  curve.steps.push_back(step);
  curve.values.push_back(value);
}

void append(std::vector<NamedCurve>& curves, std::string name, bool validation, Curve curve) {
  if (curve.steps.empty()) return;
  curves.push_back({.name = std::move(name), .validation = validation, .curve = std::move(curve)});
}

// ---- Events

void read_speed(std::string_view events, RunHistory& history) {
  Curve per_second, per_step;
  read_events(events, "speed", [&](std::uint64_t step, const nlohmann::ordered_json& json) {
    add_point(per_step, step, number_of(json.at("step_seconds")));
    add_point(per_second, step, number_of(json.at("target_tokens_per_second")));
  });
  append(history.curves, "step_seconds", false, std::move(per_step));
  append(history.curves, "target_tokens_per_second", false, std::move(per_second));
}

/// Adds curves of memory and training accuracy over all records, and at most `max_records` records.
void read_records(std::string_view events, const std::string& place, RunHistory& history) {
  auto [all, ignored] = read_validations(events);
  if (ignored > 0) {
    history.notes.push_back(fmt::format(
        "{}: the last {} lines are ignored, since the first of them is invalid", place, ignored));
  }
  Curve memory, accuracy;
  for (const ValidationRecord& record : all) {
    const auto bytes = static_cast<double>(record.resident_bytes);
    if (record.resident_bytes > 0) add_point(memory, record.step, bytes);
    if (record.training) add_point(accuracy, record.step, record.training->sample.accuracy);
  }
  append(history.curves, "memory_bytes", false, std::move(memory));
  append(history.curves, "token_accuracy", false, std::move(accuracy));
  const std::size_t kept = std::min(max_records, all.size());
  for (std::size_t i = 0; i < kept; ++i) {
    history.records.push_back(std::move(all[(i + 1) * all.size() / kept - 1]));
  }
}

/// Adds a note about files of earlier versions in a run directory.
void note_old_files(const std::filesystem::path& run, RunHistory& history) {
  std::vector<std::string> found;
  for (const char* name : {"timing.csv", "time_use.csv", "recording.jsonl"}) {
    std::error_code ignored;
    if (std::filesystem::exists(run / name, ignored)) found.emplace_back(name);
  }
  if (found.empty()) return;
  history.notes.push_back(
      fmt::format("files of an earlier version are ignored: {}; speed, time, samples and weights "
                  "of their steps are missing",
                  fmt::join(found, ", ")));
}

// ---- The log

constexpr std::size_t time_length = std::string_view("2026-11-23 19:54:24").size();

/// Whether a log line begins with a time. Only the first line of a message begins with a time.
bool has_time(std::string_view line) {
  constexpr std::string_view pattern = "0000-00-00 00:00:00  ";
  if (line.size() < pattern.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool digit = line[i] >= '0' && line[i] <= '9';
    if (pattern[i] == '0' ? !digit : line[i] != pattern[i]) return false;
  }
  return true;
}

/// Whether a line only repeats values of metrics.csv.
bool is_progress(std::string_view text) {
  constexpr std::string_view step = "step ";
  const bool is_step = text.starts_with(step) && text.size() > step.size() &&
                       (text[step.size()] == ' ' || std::isdigit(text[step.size()]) != 0) &&
                       text.find("  loss ") != text.npos;
  return is_step || text.starts_with("validation at step ") || text.starts_with("  source ");
}

void read_log(std::string_view text, RunHistory& history) {
  constexpr std::size_t max_lines = 300;
  std::vector<LogLine>& log = history.log;
  bool in_profile = false;  // from the heading of a profile to the end of its run
  for (const std::string_view line : complete_lines(text)) {
    if (!has_time(line)) continue;
    const std::string_view message = line.substr(time_length + 2);
    if (is_progress(message)) continue;
    if (message.find(" seconds by operation; ") != message.npos) {
      in_profile = true;
      history.profile.clear();
    }
    const bool ends = message.starts_with("done: ") || message.starts_with("stopped by ");
    in_profile = in_profile && !ends;
    if (in_profile) {
      history.profile += escaped(message) + "\n";
      continue;
    }
    log.push_back({.time = std::string(line.substr(0, time_length)),
                   .text = escaped(message),
                   .warning = message.starts_with("warning: ")});
  }
  if (log.size() <= max_lines) return;
  history.log_lines_left_out = log.size() - max_lines;
  log.erase(log.begin(), log.end() - max_lines);
}

}  // namespace

std::vector<NamedCurve> metric_curves(std::string_view csv, std::string_view place) {
  constexpr std::array<std::string_view, 4> key_columns{"step", "epoch", "split", "target_tokens"};
  require_metrics(csv, place);
  const Fields lines = complete_lines(csv);
  const Fields columns = split(lines.front(), ',');
  std::vector<Curve> training(columns.size()), validation(columns.size());
  for (const std::string_view line : std::span(lines).subspan(1)) {
    const Fields fields = split(line, ',');
    const auto step = static_cast<std::uint64_t>(parse_value(fields[0]).value());
    std::vector<Curve>& curves = fields[2] == "train" ? training : validation;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (const auto value = parse_value(fields[i])) add_point(curves[i], step, *value);
    }
  }
  std::vector<NamedCurve> all;
  for (const bool is_validation : {false, true}) {
    std::vector<Curve>& curves = is_validation ? validation : training;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (std::ranges::find(key_columns, columns[i]) != key_columns.end()) continue;
      append(all, std::string(columns[i]), is_validation, std::move(curves[i]));
    }
  }
  return all;
}

void separate_label_smoothing(std::vector<NamedCurve>& curves) {
  const auto find = [&](std::string_view name) {
    return std::ranges::find_if(
        curves, [&](const NamedCurve& curve) { return curve.name == name && !curve.validation; });
  };
  const auto loss = find("loss"), perplexity = find("perplexity");
  if (loss == curves.end() || perplexity == curves.end()) return;
  NamedCurve without = *perplexity;
  without.name = "loss";
  for (double& value : without.curve.values) value = std::log(value);
  loss->name = "training_objective";
  curves.insert(loss, std::move(without));
}

RunHistory read_run_history(const std::filesystem::path& run_directory) {
  constexpr std::size_t max_log_bytes = 64 << 20;
  RunHistory history;
  const auto read = [&](const char* name, std::size_t max_bytes, const auto& use) {
    const std::filesystem::path path = run_directory / name;
    try {
      const auto text = read_end_of_run_file(path, max_bytes);
      if (text) use(*text, escaped(path.string()));
    } catch (const UserError& error) {
      history.notes.push_back(error.what());
    }
  };
  read("metrics.csv", max_run_file_bytes, [&](const std::string& text, const std::string& place) {
    history.curves = metric_curves(text, place);
  });
  read(events_file_name, max_run_file_bytes,
       [&](const std::string& text, const std::string& place) {
         read_speed(text, history);
         history.processes = read_process_times(text);
         read_records(text, place, history);
       });
  read("train.log", max_log_bytes,
       [&](const std::string& text, const std::string&) { read_log(text, history); });
  note_old_files(run_directory, history);
  return history;
}

}  // namespace tapestry
