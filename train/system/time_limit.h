// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <optional>

namespace tapestry {

/// The time limit of a process (`train.max_time`). Time is up early enough for a save: when the
/// remaining time is shorter than the longest iteration so far plus the longest save so far. While
/// a save is being written, the longest save counts twice.
class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// A default-constructed object has no limit.
  TimeLimit() = default;
  /// A `limit` of 0 means no limit.
  TimeLimit(Clock::time_point started, std::chrono::seconds limit)
      : started_(started), limit_(limit) {}

  /// Records the duration of an iteration: a step and the work due after it, including saves.
  void add_iteration(Clock::duration taken);
  /// Records the duration of a save.
  ///
  /// in_flight  whether a save is being written, which the last save must wait for
  void update_save_time(Clock::duration taken, bool in_flight = false);

  bool is_up(Clock::time_point now) const;
  /// The latest time at which a save can begin and still finish in time; nullopt without a limit.
  std::optional<Clock::time_point> save_deadline() const;
  std::chrono::seconds limit() const { return limit_; }

 private:
  Clock::duration time_to_save() const { return max_save_time_ * (in_flight_ ? 2 : 1); }

  Clock::time_point started_{};
  std::chrono::seconds limit_{0};
  Clock::duration max_iteration_time_{0};
  Clock::duration max_save_time_{0};
  bool in_flight_ = false;
};

}  // namespace tapestry
