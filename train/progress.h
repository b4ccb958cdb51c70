#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "train/metrics.h"

namespace spdlog {
class logger;
}

namespace tapestry {

/// Tells the user how a run goes: on a terminal a live line that is redrawn, in a pipe plain lines;
/// everything but the live line goes to the run's log file too, with the time of day.
class Progress {
 public:
  /// `out` may be null: then only the log file, if any, is written. `total_steps` is the goal and
  /// `targets` what is predicted, see Task::target_noun().
  Progress(std::FILE* out, std::uint64_t first_step, std::uint64_t total_steps,
           std::string targets = "tokens");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From now on lines go to this file as well; throws OutputError if it cannot be opened.
  void log_to(const std::string& path);

  /// A line of text for the user.
  void message(const std::string& text);
  /// After every step: counts targets and, at most ten times a second, redraws the live line.
  void step(std::uint64_t step, std::size_t targets, double loss);
  /// After an interval of steps.
  void metrics(const TrainMetrics& metrics);
  /// `scores` as Task::format_scores() writes them.
  void validation(std::uint64_t step, const std::string& scores, bool best);

 private:
  using Clock = std::chrono::steady_clock;

  void line(const std::string& text);
  void erase_live_line();
  /// "31,672 tokens/s"
  std::string speed() const;
  std::string time_left(std::uint64_t step) const;

  std::FILE* out_;
  bool terminal_;
  bool lost_ = false;  ///< whether the log says that out_ could not be written
  std::uint64_t first_step_, total_steps_;
  std::string targets_;
  Clock::time_point started_, drawn_{}, interval_started_;
  std::uint64_t interval_targets_ = 0;
  std::shared_ptr<spdlog::logger> log_;
};

}  // namespace tapestry
