#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/metrics.h"

namespace tapestry {

/// The best value of train.best_metric up to now.
struct BestScore {
  std::string metric;  ///< "loss"
  double value = 0.0;
};

/// Description of a run that an output gives at the start.
struct RunStart {
  std::string run_dir;            ///< path of the run directory
  std::string kind;               ///< model.kind
  std::uint64_t first_step = 0;   ///< steps done by earlier processes
  std::uint64_t total_steps = 0;  ///< the last step
  std::uint64_t parameters = 0;   ///< number of trained values
};

/// Speed of the current interval and the time that the rest of the run will take.
struct ProgressRates {
  double targets_per_second = 0.0;
  double seconds_left = 0.0;
};

/// The state of a run after a step.
struct LiveValues {
  std::uint64_t step = 0, total_steps = 0;
  double loss = 0.0;           ///< smoothed
  std::string time_left;       ///< "0:01:20"
  std::string speed;           ///< "31,672 tokens/s"
  std::vector<double> past{};  ///< means of the loss of equal parts of the steps of this process
  std::optional<BestScore> best{};
  std::uint64_t resident_bytes = 0;  ///< memory of the process; 0: unknown
};

/// A validation.
struct ValidationReport {
  std::uint64_t step = 0;
  std::string text;                        ///< the scores as Task::format_scores() formats them
  std::map<std::string, double> scores{};  ///< by name, as in metrics.csv
  bool best = false;                       ///< whether it is the best one up to now
};

/// Where a Progress writes the events of a run, in addition to its log. Writing never throws: the
/// run continues if nobody reads its output.
class ProgressOutput {
 public:
  explicit ProgressOutput(std::FILE* file) : file_(file) {}
  virtual ~ProgressOutput() = default;
  ProgressOutput(const ProgressOutput&) = delete;
  ProgressOutput& operator=(const ProgressOutput&) = delete;

  virtual void start(const RunStart&) {}
  /// A text of one or more lines, without control characters.
  virtual void message(const std::string& text) = 0;
  /// Whether step() shows something now.
  virtual bool shows_step() { return false; }
  virtual void step(const LiveValues&) {}
  /// A logged interval of steps; `line` is its text.
  virtual void metrics(const std::string& line, const TrainMetrics&, const ProgressRates&) {
    message(line);
  }
  /// `line` is the text of the validation.
  virtual void validation(const std::string& line, const ValidationReport&) { message(line); }
  /// A checkpoint has been written.
  virtual void checkpoint(std::uint64_t /*step*/, const std::string& /*path*/) {}
  virtual void end(std::uint64_t /*step*/, int /*exit_code*/) {}

  /// The errno of the first line that could not be written; 0 if all were.
  int error() const { return error_; }

 protected:
  std::FILE* file() const { return file_; }
  /// Writes a text and its line feed at once.
  void write_line(const std::string& text);

 private:
  std::FILE* file_;
  int error_ = 0;
};

/// Lines of text; on a terminal also a live line that is redrawn and fits its width, except without
/// escape sequences (TERM=dumb).
std::unique_ptr<ProgressOutput> make_text_output(std::FILE* file);

/// One JSON object per line, as train/cli/README.md describes them.
std::unique_ptr<ProgressOutput> make_json_output(std::FILE* file);

/// The losses of the steps of a process, in memory that does not grow with their number.
class LossHistory {
 public:
  void add(double loss);

  /// The exponential mean of the losses, s_t = sum_i b^(t-i) x_i / sum_i b^(t-i), b = 0.95; 0
  /// without losses.
  double smoothed() const;

  /// The means of equal parts of the steps, in order: at most 64, at least 32 once there were as
  /// many steps. Steps at the end that do not fill a part are left out.
  const std::vector<double>& parts() const { return parts_; }

 private:
  double sum_ = 0.0, weight_ = 0.0;
  std::vector<double> parts_;
  std::size_t steps_per_part_ = 1;
  double part_sum_ = 0.0;
  std::size_t part_steps_ = 0;
};

/// "[####------]": the share of the steps that is done.
std::string progress_bar(std::uint64_t step, std::uint64_t total_steps);

/// Values as a row of `width` or fewer block characters, between the smallest and the largest
/// value; empty for fewer than two values. Values that are not finite are blanks.
std::string sparkline(std::span<const double> values, std::size_t width);

/// The parts of the line that fit into `columns` characters. Of what does not fit, the least
/// important is left out first: sparkline, memory, speed, best score, bar, time left, loss. The
/// step is always there, cut if it has to be.
///
/// utf8  whether the line may have a sparkline
std::string live_line(const LiveValues& values, std::size_t columns, bool utf8);

/// Whether the locale of the environment (LC_ALL, LC_CTYPE, LANG) has the encoding UTF-8.
bool is_utf8_locale();

}  // namespace tapestry
