// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>

#include "train/checkpoint/metrics.h"
#include "train/loop/live_line.h"
#include "train/recording/time_use.h"

namespace spdlog {
class logger;
}

namespace tapestry {

/// Formats of the output of a Progress.
enum class ProgressFormat {
  text,   ///< lines of text, and a live line on a terminal with escape sequences (not TERM=dumb)
  lines,  ///< lines of text only
  json    ///< one JSON object per line, see train/cli/README.md
};

/// Description of a run at its start.
struct RunStart {
  std::string run_dir;            ///< path of the run directory
  std::string kind;               ///< model.kind
  std::uint64_t first_step = 0;   ///< steps done by earlier processes
  std::uint64_t total_steps = 0;  ///< the last step
  std::uint64_t parameters = 0;   ///< number of trained values
};

/// A validation.
struct ValidationReport {
  std::uint64_t step = 0;
  std::string text;                        ///< the scores as Task::format_scores() formats them
  std::map<std::string, double> scores{};  ///< scores by name, as in metrics.csv
  bool best = false;                       ///< whether the validation is the best so far
};

/// Reports the progress of a run to an output and to the run's log file. The log has lines of text
/// with the time of day. An output that cannot be written does not stop the run.
class Progress {
 public:
  /// out          may be null: then only the log file, if any, is written
  /// total_steps  the last step
  /// targets      the noun for labels, see TaskWords::targets
  Progress(std::FILE* out, std::uint64_t first_step, std::uint64_t total_steps,
           std::string targets = "tokens", ProgressFormat format = ProgressFormat::text);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Also appends lines to this file from now on. Warns once if the file cannot be written.
  /// throws  OutputError if it cannot be opened or is not a regular file.
  void log_to(const std::string& path);

  /// From now on, message() also prints texts that begin with "warning: " on standard error, for
  /// runs without other output.
  void warn_on_standard_error() { warns_ = true; }

  /// The errno of the first failed write to `out`; 0 if all writes succeeded.
  int output_error() const { return output_error_; }

  /// Starts the clock for speeds and for the time left.
  void start_timing();

  /// Reports the start of training.
  void start(const RunStart& run);
  /// Sets the best score that the live line shows.
  void best(BestScore score) { best_ = std::move(score); }
  /// Reports a checkpoint that has been written.
  void checkpoint(std::uint64_t step, const std::string& path);
  /// Reports the end of the run.
  void end(int exit_code);

  /// Writes an error, which ends the run, to the log file only.
  void log_error(const std::string& text);
  /// Prints a line of text.
  void message(const std::string& text);
  /// Calls `text` once, after the first step() that ends at least `delay` from now, and prints its
  /// result.
  void message_later(std::chrono::seconds delay, std::function<std::optional<std::string>()> text);
  /// Call this after every step. Counts targets and redraws the live line at most ten times a
  /// second.
  void step(std::uint64_t step, std::size_t targets, double loss);
  /// Call this after every logged interval of steps. Returns the speed of the interval; nullopt if
  /// it has no steps, such as after a validation at a logged step.
  std::optional<StepSpeed> metrics(const TrainMetrics& metrics);
  /// Excludes the time that a save took from the speed of the steps.
  void exclude(std::chrono::steady_clock::duration time) { interval_started_ += time; }
  /// Reports that the run has returned to an earlier step.
  void rolled_back(std::uint64_t step);
  /// Reports a validation.
  void validation(const ValidationReport& report);

 private:
  using Clock = std::chrono::steady_clock;
  using Json = nlohmann::ordered_json;

  void report(const std::string& line, const Json& event);
  void log(const std::string& text);
  void write_event(const Json& event);
  void write_line(const std::string& text);
  bool is_live_line_due();
  void draw_live_line(std::uint64_t step);
  void erase_live_line();
  void begin_interval();
  std::optional<StepSpeed> interval_speed() const;
  void print_later_message();
  double targets_per_second() const;
  /// "31,672 tokens/s"
  std::string speed() const;
  double seconds_left(std::uint64_t step) const;

  std::FILE* out_;  ///< null: only the log is written
  ProgressFormat format_;
  bool has_live_line_;  ///< whether `out_` is a terminal that can erase a line
  Clock::time_point drawn_{};
  int output_error_ = 0;
  bool lost_ = false;   ///< whether the log records that writing to out_ failed
  bool warns_ = false;  ///< whether warnings are printed on standard error
  std::uint64_t first_step_, total_steps_, last_step_;
  std::string targets_;
  LossHistory losses_;
  std::optional<BestScore> best_;
  Clock::time_point started_, interval_started_;
  std::uint64_t interval_targets_ = 0, interval_steps_ = 0;
  std::shared_ptr<spdlog::logger> log_;
  std::optional<std::string> log_problem_;  ///< why the log could not be written, until reported
  bool log_failed_ = false;                 ///< whether writing the log has ever failed
  Clock::time_point later_{};               ///< when later_text_ is due
  std::function<std::optional<std::string>()> later_text_;
};

}  // namespace tapestry
