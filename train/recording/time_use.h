// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/profiler.h"
#include "data/batch.h"
#include "train/recording/event_log.h"
#include "train/system/cores.h"

namespace tapestry {

/// Categories of the wall time of a process. Time outside these categories is not recorded.
enum class TimePart : std::uint8_t {
  batches,         ///< waiting for the batches of a step, or preparing them
  forward,         ///< forward passes of this process
  backward,        ///< backward passes of this process
  anomaly_checks,  ///< checks of train.detect_anomaly; not included in forward and backward
  exchange,        ///< exchanging gradients and parameters with other processes
  optimizer,       ///< gradient norm, update of the weights, running average of the weights
  validation,      ///< validation, including decoding
  saving,          ///< copying the state, and waiting for an earlier save to finish
  reports,         ///< writing reports, see train.report_every
  recording        ///< writing files for reports, `diff` and TensorBoard
};

/// The names of the parts, in the order of TimePart.
inline constexpr std::array<std::string_view, 10> time_part_names = {
    "batches",   "forward",    "backward", "anomaly_checks", "exchange",
    "optimizer", "validation", "saving",   "reports",        "recording"};

/// The seconds of each TimePart, and counts of token positions, since a process began training.
class TimeUse {
 public:
  using Duration = std::chrono::steady_clock::duration;

  void add(TimePart part, Duration time) { times_[static_cast<std::size_t>(part)] += time; }
  /// Counts the token positions of a batch. Does not count the single label per row of a
  /// classifier.
  void add(const Batch& batch);

  double seconds(TimePart part) const;
  /// Number of token positions in the batches; 0 for images.
  std::uint64_t positions() const { return positions_; }
  /// Number of token positions that are padding.
  std::uint64_t padding() const { return padding_; }

 private:
  std::array<Duration, time_part_names.size()> times_{};
  std::uint64_t positions_ = 0, padding_ = 0;
};

/// Adds the lifetime of the object to a part, and to the profile like ProfileScope. Must not be
/// nested.
class PartTimer {
 public:
  /// name  name of the row in the profile, a string literal
  PartTimer(TimeUse& use, TimePart part, const char* name)
      : scope_(name, Phase::other), use_(use), part_(part) {}
  ~PartTimer() { use_.add(part_, std::chrono::steady_clock::now() - started_); }
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;

 private:
  ProfileScope scope_;
  TimeUse& use_;
  TimePart part_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

/// Adds events `time` to a log. Each event has the time use since this process began to train, so
/// only the last event of a process is needed. Members:
///
///     started              time at which the process began to train, in UTC
///     seconds              wall time since then
///     processor_seconds    processor time of all threads of the process, including busy waiting
///     other_seconds        processor time of other programs on the cores of the process
///     threads, cores       number of threads; number of cores that the process may use
///     positions, padding   see TimeUse
///     parts                seconds of each TimePart by name
///
/// Processor times are null if the system does not report them.
class TimeRecorder {
 public:
  /// Starts the clock. Construct it when the process begins training.
  TimeRecorder();

  void add(EventLog& log, std::uint64_t step, const TimeUse& use);
  /// Adds an event if the last event is at least `between_events` old. An event takes about 0.1 ms,
  /// for reading the processor time and writing.
  void add_if_due(EventLog& log, std::uint64_t step, const TimeUse& use);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds between_events{10};

  std::string started_text_;
  Clock::time_point started_ = Clock::now(), last_event_ = started_;
  std::optional<ProcessorTime> processor_before_ = read_processor_time();
};

/// The time use of a process, from its last event `time`.
struct ProcessTime {
  std::uint64_t step = 0;
  std::string started{};
  double seconds = 0.0;
  std::optional<double> processor_seconds{}, other_seconds{};
  std::size_t threads = 0, cores = 0;
  std::uint64_t positions = 0, padding = 0;
  std::array<double, time_part_names.size()> parts{};  ///< seconds of each part

  double part(TimePart part) const { return parts[static_cast<std::size_t>(part)]; }
};

/// Reads the last event `time` of each process; see read_events().
std::vector<ProcessTime> read_process_times(std::string_view events);

/// The speed of an interval of training steps, without validations and saves.
struct StepSpeed {
  double seconds_per_step = 0.0;
  double targets_per_second = 0.0;
};

/// Adds an event `speed`: `time` in UTC, `step_seconds` and `target_tokens_per_second`.
void add_speed(EventLog& log, std::uint64_t step, const StepSpeed& speed);

}  // namespace tapestry
