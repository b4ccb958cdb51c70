#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "train/checkpoint/metrics.h"
#include "train/loop/progress_output.h"
#include "train/recording/time_use.h"

namespace spdlog {
class logger;
}

namespace tapestry {

/// Formats of the output of a Progress.
enum class ProgressFormat {
  text,  ///< lines of text, and on a terminal a live line
  json   ///< one JSON object per line
};

/// Reports the progress of a run to an output (see ProgressOutput), and as lines of text, with the
/// time of day, to the run's log file.
class Progress {
 public:
  /// `out` may be null: then only the log file, if any, is written. `total_steps` is the last step,
  /// and `targets` the noun for what is predicted, see TaskWords::targets.
  Progress(std::FILE* out, std::uint64_t first_step, std::uint64_t total_steps,
           std::string targets = "tokens", ProgressFormat format = ProgressFormat::text);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Also appends lines to this file from now on. That it cannot be written is a warning, once.
  /// throws  OutputError if it cannot be opened or is not a regular file.
  void log_to(const std::string& path);

  /// Also prints what message() is given as a warning, "warning: ...", on standard error from now
  /// on, for runs without other output.
  void warn_on_standard_error() { warns_ = true; }

  /// The errno of the first line that `out` did not take; 0 if it took all.
  int output_error() const { return output_ == nullptr ? 0 : output_->error(); }

  /// Training begins now: what came before is not counted in speeds and in the time left.
  void start_timing();

  /// To be called before training.
  void start(const RunStart& run);
  /// The best value of an earlier process, or a new one.
  void best(BestScore score) { best_ = std::move(score); }
  /// To be called after a checkpoint has been written.
  void checkpoint(std::uint64_t step, const std::string& path);
  /// To be called at the end of the run, whatever its reason is.
  void end(int exit_code);

  /// Writes an error, which ends the run, to the log file only.
  void log_error(const std::string& text);
  /// Prints a line of text.
  void message(const std::string& text);
  /// Calls `text` once, after the first step() that ends at least `delay` from now, and prints what
  /// it returns.
  void message_later(std::chrono::seconds delay, std::function<std::optional<std::string>()> text);
  /// To be called after every step: counts targets and redraws the live line at most ten times a
  /// second.
  void step(std::uint64_t step, std::size_t targets, double loss);
  /// To be called after every logged interval of steps. Returns its speed; nullopt if no step() has
  /// been called since the last one, as after a validation at a logged step.
  std::optional<StepSpeed> metrics(const TrainMetrics& metrics);
  /// Excludes the time that a save took from the speed of the steps.
  void exclude(std::chrono::steady_clock::duration time) { interval_started_ += time; }
  /// To be called after the run has returned to an earlier step.
  void rolled_back(std::uint64_t step);
  /// To be called after every validation.
  void validation(const ValidationReport& report);

 private:
  using Clock = std::chrono::steady_clock;

  void log(const std::string& text);
  void output(const std::function<void(ProgressOutput&)>& report);
  void begin_interval();
  std::optional<StepSpeed> interval_speed() const;
  void print_later_message();
  double targets_per_second() const;
  /// "31,672 tokens/s"
  std::string speed() const;
  double seconds_left(std::uint64_t step) const;

  std::unique_ptr<ProgressOutput> output_;  ///< null: only the log
  bool lost_ = false;   ///< whether the log records that writing to output_ failed
  bool warns_ = false;  ///< whether warnings are printed on standard error
  std::uint64_t first_step_, total_steps_, last_step_;
  std::string targets_;
  LossHistory losses_;
  std::optional<BestScore> best_;
  Clock::time_point started_, interval_started_;
  std::uint64_t interval_targets_ = 0, interval_steps_ = 0;
  std::shared_ptr<spdlog::logger> log_;
  std::optional<std::string> log_problem_;  ///< why the log could not be written, not yet told
  bool log_failed_ = false;                 ///< whether that was ever so
  Clock::time_point later_{};               ///< when later_text_ is due
  std::function<std::optional<std::string>()> later_text_;
};

}  // namespace tapestry
