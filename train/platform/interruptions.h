#pragma once

#include <signal.h>

#include <array>
#include <chrono>
#include <cstddef>

namespace tapestry {

/// While one is alive, SIGINT, SIGTERM and SIGHUP are remembered instead of ending the process, so
/// that a run can finish its step and save; a second one ends the process at once. SIGUSR1 asks for
/// a save. SIGPIPE and SIGXFSZ are ignored: writes report such errors themselves. A signal that is
/// ignored already, such as SIGHUP under nohup, stays so. Afterwards everything is as before. One
/// at a time.
class RunSignals {
 public:
  RunSignals();
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  /// The first signal that asked for an end, or 0.
  int stop() const;

  /// Whether a save has been asked for since the last call.
  bool take_save_request();

 private:
  static constexpr std::size_t handled_signals = 6;

  std::array<struct sigaction, handled_signals> before_{};
};

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

/// What may end a run before its last step, or have it saved in between.
struct Interruptions {
  RunSignals* signals = nullptr;
  TimeLimit time{};
};

}  // namespace tapestry
