#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>

namespace tapestry {

/// Handles signals during its lifetime: SIGINT, SIGTERM, SIGHUP, SIGUSR2 and SIGXCPU are recorded
/// instead of ending the process, so that a run can save; a second one ends the process at once,
/// except SIGXCPU, which the system repeats every second. If standard error is a terminal, the
/// first one prints a line there. SIGUSR1 requests a save. SIGPIPE and SIGXFSZ are ignored, since
/// writes report these errors themselves. A signal that is already ignored, such as SIGHUP under
/// nohup, stays ignored. SIGQUIT keeps its default: it ends the process without a save and dumps
/// core. The destructor restores all handlers. Only one object may exist at a time.
class RunSignals {
 public:
  /// saves  whether the run is saved when it ends by a signal, as the printed line says
  explicit RunSignals(bool saves = true);
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  /// The first signal that requested an end, or 0.
  int stop() const;

  /// Requests an end as the signal does, which stop() then returns: for a signal that another
  /// process of the run has received. The first signal that this process receives afterwards counts
  /// as the same request.
  void stop_by(int signal);

  /// Whether a save has been requested since the last call.
  bool take_save_request();

  /// Becomes true when an end is requested, by a signal or by end_at().
  const std::atomic<bool>& end_requested() const;

  /// Makes time_is_up() true from `time` on. Replaces the time of an earlier call.
  void end_at(std::chrono::steady_clock::time_point time);
  bool time_is_up() const;

 private:
  static constexpr std::size_t handled_signals = 8;

  std::array<struct sigaction, handled_signals> before_{};
  std::optional<timer_t> timer_;      ///< of end_at(); sends SIGALRM
  struct sigaction before_alarm_ {};  ///< set if timer_ is
};

/// The time limit of a process (`train.max_time`). It is reached early enough to save: as soon as
/// the remaining time is shorter than the longest iteration so far plus the longest save, or two of
/// them while a save is in flight.
class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// A default object has no limit.
  TimeLimit() = default;
  /// A `limit` of 0 means no limit.
  TimeLimit(Clock::time_point started, std::chrono::seconds limit)
      : started_(started), limit_(limit) {}

  /// Records the duration of an iteration: a step and the work due after it, which may include a
  /// save.
  void add_iteration(Clock::duration taken);
  /// Records how long a save takes.
  ///
  /// in_flight  whether one is being written, which the last save waits for
  void update_save_time(Clock::duration taken, bool in_flight = false);

  bool is_up(Clock::time_point now) const;
  /// The latest time at which a save still fits; nullopt without a limit.
  std::optional<Clock::time_point> save_deadline() const;
  std::chrono::seconds limit() const { return limit_; }

 private:
  Clock::duration time_to_save() const { return max_save_time_ * (in_flight_ ? 2 : 1); }

  Clock::time_point started_{};
  std::chrono::seconds limit_{0};
  Clock::duration longest_iteration_{0};
  Clock::duration max_save_time_{0};
  bool in_flight_ = false;
};

/// Signals and limits that may end a run before its last step or request a save.
struct Interruptions {
  RunSignals* signals = nullptr;
  TimeLimit time{};
  std::optional<std::uint64_t> last_step{};  ///< the run stops after this step
};

}  // namespace tapestry
