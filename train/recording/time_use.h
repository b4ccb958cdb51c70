#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "autograd/profiler.h"
#include "data/batch.h"

namespace tapestry {

/// What a process of a run does with its time. What is none of these is left out.
enum class TimePart : std::uint8_t {
  batches,         ///< waiting for the batches of a step, or preparing them
  forward,         ///< of the batches of this process
  backward,        ///< the same
  anomaly_checks,  ///< in forward and backward, which exclude them; see train.detect_anomaly
  exchange,        ///< of gradients and parameters with other processes
  optimizer,       ///< gradient norm, update of the weights, their average
  validation,      ///< with decoding
  saving,          ///< copying the state, and waiting for an earlier save to be written
  reports,         ///< see train.report_every
  recording        ///< files for reports, `diff` and TensorBoard
};

/// The names of the parts, in the order of TimePart.
inline constexpr std::array<std::string_view, 10> time_part_names = {
    "batches",   "forward",    "backward", "anomaly_checks", "exchange",
    "optimizer", "validation", "saving",   "reports",        "recording"};

/// The use of the time of a process since it began to train.
class TimeUse {
 public:
  using Duration = std::chrono::steady_clock::duration;

  void add(TimePart part, Duration time) { times_[static_cast<std::size_t>(part)] += time; }
  /// Counts the positions of a batch. The single label of a classifier's row counts as none.
  void add(const Batch& batch);

  double seconds(TimePart part) const;
  /// Token positions of the batches; 0 for images.
  std::uint64_t positions() const { return positions_; }
  /// The positions with padding.
  std::uint64_t padding() const { return padding_; }

 private:
  std::array<Duration, time_part_names.size()> times_{};
  std::uint64_t positions_ = 0, padding_ = 0;
};

/// Adds the time of its lifetime to a part, and to the profile as a ProfileScope. Not to be nested.
class PartTimer {
 public:
  /// name  of the row of the profile, a literal
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

}  // namespace tapestry
