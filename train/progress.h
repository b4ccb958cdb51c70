#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "train/metrics.h"
#include "train/timing_log.h"

namespace spdlog {
class logger;
}

namespace tapestry {

/// Reports the progress of a run: on a terminal as a live line that is redrawn and fits its width,
/// otherwise, also on a terminal without escape sequences (TERM=dumb), as plain lines. Everything
/// but the live line is also written to the run's log file, with the time of day.
class Progress {
 public:
  /// `out` may be null: then only the log file, if any, is written. `total_steps` is the last step,
  /// and `targets` the noun for what is predicted, see Task::target_noun().
  Progress(std::FILE* out, std::uint64_t first_step, std::uint64_t total_steps,
           std::string targets = "tokens");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Also appends lines to this file from now on. That it cannot be written is a warning, once.
  /// throws  OutputError if it cannot be opened or is not a regular file.
  void log_to(const std::string& path);

  /// Also prints what message() is given as a warning, "warning: ...", on standard error from now
  /// on, for runs without other output.
  void warn_on_standard_error() { warns_ = true; }

  /// The errno of the first line that `out` did not take; 0 if there is none.
  int output_error() const { return output_error_; }

  /// Also writes the speed of each logged interval to this file from now on, see TimingLog.
  void time_to(const std::string& path);

  /// Writes an error that ends the run to the log file alone.
  void log_error(const std::string& text);
  /// Prints a line of text.
  void message(const std::string& text);
  /// Calls `text` once, after the first step() that ends at least `delay` from now, and prints what
  /// it returns.
  void message_later(std::chrono::seconds delay, std::function<std::optional<std::string>()> text);
  /// To be called after every step: counts targets and redraws the live line at most ten times a
  /// second.
  void step(std::uint64_t step, std::size_t targets, double loss);
  /// To be called after every logged interval of steps.
  void metrics(const TrainMetrics& metrics);
  /// Excludes the time that a save took from the speed of the steps.
  void exclude(std::chrono::steady_clock::duration time) { interval_started_ += time; }
  /// To be called after the run has returned to an earlier step.
  void rolled_back(std::uint64_t step);
  /// `scores` as formatted by Task::format_scores().
  void validation(std::uint64_t step, const std::string& scores, bool best);

 private:
  using Clock = std::chrono::steady_clock;

  void line(const std::string& text);
  void print(const std::string& text);
  void begin_interval();
  void add_timing(std::uint64_t step);
  void warn_of_timing();
  void erase_live_line();
  void draw_live_line(std::uint64_t step, double loss);
  void print_later_message();
  /// "31,672 tokens/s"
  std::string speed() const;
  std::string time_left(std::uint64_t step) const;

  std::FILE* out_;
  bool terminal_;  ///< whether there is a live line
  int output_error_ = 0;
  bool lost_ = false;   ///< whether the log records that writing to out_ failed
  bool warns_ = false;  ///< whether warnings are printed on standard error
  std::uint64_t first_step_, total_steps_;
  std::string targets_;
  Clock::time_point started_, drawn_{}, interval_started_;
  std::uint64_t interval_targets_ = 0, interval_steps_ = 0;
  std::optional<TimingLog> timing_;
  std::shared_ptr<spdlog::logger> log_;
  std::optional<std::string> log_problem_;  ///< why the log could not be written, not yet told
  bool log_failed_ = false;                 ///< whether that was ever so
  Clock::time_point later_{};               ///< when later_text_ is due
  std::function<std::optional<std::string>()> later_text_;
};

}  // namespace tapestry
