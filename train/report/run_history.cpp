#include "train/report/run_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <system_error>

#include "data/io/error.h"
#include "data/io/utf8.h"
#include "train/checkpoint/run_directory.h"
#include "train/metrics.h"
#include "train/output/timing_log.h"

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

template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) return std::numeric_limits<T>::quiet_NaN();
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// ---- Times

/// Seconds since 1970 of a time such as "2026-01-01T00:00:01Z"; nullopt for another text.
std::optional<double> parse_time(std::string_view time) {
  constexpr std::string_view pattern = "0000-00-00T00:00:00Z";
  if (time.size() != pattern.size()) return std::nullopt;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '0' && time[i] != pattern[i]) return std::nullopt;
  }
  const auto part = [&](std::size_t begin, std::size_t count) {
    return parse<unsigned>(time.substr(begin, count)).value_or(0);
  };
  using namespace std::chrono;
  const year_month_day date(year(static_cast<int>(part(0, 4))), month(part(5, 2)), day(part(8, 2)));
  if (!date.ok()) return std::nullopt;
  const auto days = sys_days(date).time_since_epoch().count();
  return 86400.0 * static_cast<double>(days) + 3600.0 * part(11, 2) + 60.0 * part(14, 2) +
         part(17, 2);
}

/// Finds the rows of timing.csv that another process wrote than the row before: the time that has
/// elapsed since the start of the process falls, or the start is later. (It is later as well after
/// the machine was suspended, which elapsed times leave out.)
class ProcessStarts {
 public:
  bool is_new(std::string_view time, double elapsed) {
    constexpr double tolerance = 1.5;  // times have whole seconds
    const auto now = parse_time(time);
    const auto start = now ? std::optional(*now - elapsed) : std::nullopt;
    const bool is_later = start && start_ && *start > *start_ + tolerance;
    const bool result = elapsed < elapsed_ || is_later;
    start_ = start;
    elapsed_ = elapsed;
    return result;
  }

 private:
  std::optional<double> start_;  ///< of the process of the last row
  double elapsed_ = 0.0;         ///< of the last row
};

// ---- Tables

/// Adds points to the curves of the columns of a table.
class CurveBuilder {
 public:
  CurveBuilder(const Fields& columns, bool validation) {
    for (const std::string_view column : columns) {
      curves_.push_back({.name = std::string(column), .validation = validation, .curve = {}});
    }
  }

  void add(std::uint64_t step, std::size_t column, std::string_view field) {
    const auto value = parse<double>(field);
    if (!value) return;
    Curve& curve = curves_[column].curve;
    if (!curve.steps.empty() && curve.steps.back() >= step) return;
    curve.steps.push_back(step);
    curve.values.push_back(*value);
  }

  /// Appends the curves with values, but not those of columns that only describe a row.
  void append_to(std::vector<NamedCurve>& all) {
    for (NamedCurve& curve : curves_) {
      const bool describes_row = curve.name == "step" || curve.name == "epoch" ||
                                 curve.name == "split" || curve.name == "target_tokens" ||
                                 curve.name == "time" || curve.name == "elapsed_seconds";
      if (!describes_row && !curve.curve.steps.empty()) all.push_back(std::move(curve));
    }
  }

 private:
  std::vector<NamedCurve> curves_;
};

/// Adds the content of timing.csv up to the first line that is not valid.
void read_timing(std::string_view text, const std::string& place, RunHistory& history) {
  const Fields lines = complete_lines(text);
  if (lines.empty() || lines.front() != timing_heading) {
    if (!text.empty()) {
      history.notes.push_back(
          fmt::format("{}: found another heading than that of a timing.csv; "
                      "speed is left out",
                      place));
    }
    return;
  }
  const Fields columns = split(timing_heading, ',');
  CurveBuilder curves(columns, false);
  ProcessStarts starts;
  std::uint64_t last = 0;
  for (const std::string_view line : std::span(lines).subspan(1)) {
    const Fields fields = split(line, ',');
    const auto step = parse<std::uint64_t>(fields.front());
    if (fields.size() != columns.size() || !step || *step <= last) break;
    const auto seconds = parse<double>(fields[2]);
    if (!seconds) break;
    for (std::size_t i = 3; i < fields.size(); ++i) curves.add(*step, i, fields[i]);
    std::vector<RunProcess>& all = history.processes;
    if (starts.is_new(fields[1], *seconds) || all.empty()) all.push_back({.first_step = *step});
    all.back().step_seconds +=
        parse<double>(fields[3]).value_or(0.0) * static_cast<double>(*step - last);
    all.back().last_step = last = *step;
    all.back().ended = fields[1];
    all.back().seconds = *seconds;
  }
  curves.append_to(history.curves);
}

/// Adds memory and training accuracy of all records as curves, and some of the records, evenly
/// spread, the last one among them.
void read_records(std::string_view text, const std::string& place, RunHistory& history) {
  auto [all, ignored] = parse_recording(text);
  if (ignored > 0) {
    history.notes.push_back(fmt::format(
        "{}: the last {} lines are ignored, from one that is not valid on", place, ignored));
  }
  NamedCurve memory{.name = "memory_bytes", .validation = false, .curve = {}};
  NamedCurve accuracy{.name = "token_accuracy", .validation = false, .curve = {}};
  for (const ValidationRecord& record : all) {
    if (record.resident_bytes > 0) {
      memory.curve.steps.push_back(record.step);
      memory.curve.values.push_back(static_cast<double>(record.resident_bytes));
    }
    if (record.training) {
      accuracy.curve.steps.push_back(record.step);
      accuracy.curve.values.push_back(record.training->sample.accuracy);
    }
  }
  for (NamedCurve* curve : {&memory, &accuracy}) {
    if (!curve->curve.steps.empty()) history.curves.push_back(std::move(*curve));
  }
  const std::size_t kept = std::min(most_records, all.size());
  for (std::size_t i = 0; i < kept; ++i) {
    history.records.push_back(std::move(all[(i + 1) * all.size() / kept - 1]));
  }
}

// ---- The log

constexpr std::size_t time_length = std::string_view("2026-11-23 19:54:24").size();

/// Whether a line of the log begins with a time; a message of several lines has one time.
bool has_time(std::string_view line) {
  constexpr std::string_view pattern = "0000-00-00 00:00:00  ";
  if (line.size() < pattern.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool digit = line[i] >= '0' && line[i] <= '9';
    if (pattern[i] == '0' ? !digit : line[i] != pattern[i]) return false;
  }
  return true;
}

/// Whether a line only repeats what metrics.csv has.
bool is_progress(std::string_view text) {
  constexpr std::string_view step = "step ";
  const bool of_step = text.starts_with(step) && text.size() > step.size() &&
                       (text[step.size()] == ' ' || std::isdigit(text[step.size()]) != 0) &&
                       text.find("  loss ") != text.npos;
  return of_step || text.starts_with("validation at step ") || text.starts_with("  source ");
}

void read_log(std::string_view text, RunHistory& history) {
  constexpr std::size_t kept_first = 100, kept_last = 200;
  std::vector<LogLine>& log = history.log;
  bool in_profile = false;  // up to the end of the run
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
  if (log.size() <= kept_first + kept_last) return;
  history.log_lines_left_out = log.size() - kept_first - kept_last;
  const auto begin = log.begin() + kept_first;
  log.erase(begin, begin + static_cast<std::ptrdiff_t>(history.log_lines_left_out));
}

}  // namespace

std::vector<NamedCurve> metric_curves(std::string_view csv, std::string_view place) {
  require_metrics(csv, place);
  const Fields lines = complete_lines(csv);
  const Fields columns = split(lines.front(), ',');
  CurveBuilder training(columns, false), validation(columns, true);
  for (const std::string_view line : std::span(lines).subspan(1)) {
    const Fields fields = split(line, ',');
    CurveBuilder& curves = fields[2] == "train" ? training : validation;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      curves.add(*parse<std::uint64_t>(fields.front()), i, fields[i]);
    }
  }
  std::vector<NamedCurve> curves;
  training.append_to(curves);
  validation.append_to(curves);
  return curves;
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

std::vector<RunChange> history_changes(std::string_view text) {
  constexpr std::string_view prefix = "step ";
  std::vector<RunChange> changes;
  for (const std::string_view line : complete_lines(text)) {
    const std::size_t colon = line.find(": ");
    const bool has_step = line.starts_with(prefix) && colon != line.npos;
    const auto step = has_step
                          ? parse<std::uint64_t>(line.substr(prefix.size(), colon - prefix.size()))
                          : std::nullopt;
    changes.push_back(
        {.step = step.value_or(0), .text = escaped(step ? line.substr(colon + 2) : line)});
  }
  return changes;
}

RunHistory read_run_history(const std::filesystem::path& run_directory) {
  constexpr std::size_t log_bytes = 64 << 20;
  RunHistory history;
  const auto read = [&](const char* name, std::size_t most, const auto& use) {
    const std::filesystem::path path = run_directory / name;
    try {
      if (const auto text = read_end_of_run_file(path, most)) use(*text, escaped(path.string()));
    } catch (const UserError& error) {
      history.notes.push_back(error.what());
    }
  };
  read("metrics.csv", largest_run_file, [&](const std::string& text, const std::string& place) {
    history.curves = metric_curves(text, place);
  });
  read("timing.csv", largest_run_file, [&](const std::string& text, const std::string& place) {
    read_timing(text, place, history);
  });
  read(time_use_file_name, largest_run_file, [&](const std::string& text, const std::string&) {
    history.time_use = parse_time_use(text);
  });
  read(recording_file_name, largest_run_file,
       [&](const std::string& text, const std::string& place) {
         read_records(text, place, history);
       });
  read("history.txt", log_bytes, [&](const std::string& text, const std::string&) {
    history.changes = history_changes(text);
  });
  read("train.log", log_bytes,
       [&](const std::string& text, const std::string&) { read_log(text, history); });
  return history;
}

}  // namespace tapestry
