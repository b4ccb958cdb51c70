#pragma once

#include <chrono>

namespace tapestry {

/// The time that a process has for its run (`train.max_time`). It is up early enough for a save: as
/// soon as another turn as long as the longest so far, and a save, would not fit in.
class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// Without a limit it is never up.
  TimeLimit() = default;
  /// A `limit` of 0 is none.
  TimeLimit(Clock::time_point started, std::chrono::seconds limit)
      : started_(started), limit_(limit) {}

  /// A turn is a step with all that follows it; a turn with a save counts as both.
  void note_turn(Clock::duration taken);
  void note_save(Clock::duration taken);

  bool is_up(Clock::time_point now) const;
  std::chrono::seconds limit() const { return limit_; }

 private:
  Clock::time_point started_{};
  std::chrono::seconds limit_{0};
  Clock::duration longest_turn_{0};
  Clock::duration longest_save_{0};
};

}  // namespace tapestry
