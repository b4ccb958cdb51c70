// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>

#include "train/system/time_limit.h"

namespace tapestry {

/// Handles signals from the start of a program. SIGUSR1 is recorded for RunSignals. SIGINT,
/// SIGTERM, SIGHUP, SIGUSR2 and SIGXCPU keep their default actions, and the process first deletes
/// the temporary files that it is writing. An ignored signal stays ignored.
void handle_signals_of_program();

/// Handles signals during its lifetime. Only one object may exist at a time.
///
///   - SIGINT, SIGTERM, SIGHUP, SIGUSR2 and SIGXCPU request an end, so that a run can save. The
///     first signal prints a line if standard error is a terminal. A second signal ends the process
///     immediately, except SIGXCPU, which the system repeats every second. Until start_run() is
///     called, there is nothing to save: the first signal n prints a line and ends the process
///     with exit code 128 + n.
///   - SIGUSR1 requests a save.
///   - SIGPIPE and SIGXFSZ are ignored, since writes report these errors themselves.
///   - SIGQUIT keeps its default: it ends the process without a save and dumps core.
///
/// A signal that is already ignored, such as SIGHUP under nohup, stays ignored. The destructor
/// restores all handlers.
class RunSignals {
 public:
  /// saves  whether the run saves when a signal ends it; determines the printed line
  /// loads  whether start_run() is called later
  explicit RunSignals(bool saves = true, bool loads = false);
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  /// Call this after the run has been loaded: from now on, signals request an end.
  void start_run();

  /// The first signal that requested an end, or 0.
  int stop() const;

  /// Requests an end because another process of the run has received `signal`; stop() then returns
  /// it. The first signal that this process receives afterwards is treated as the same request.
  void stop_by(int signal);

  /// Whether a save was requested since the last call.
  bool take_save_request();

  /// Becomes true when an end is requested, by a signal or by end_at().
  const std::atomic<bool>& end_requested() const;

  /// Sets the time when time_is_up() becomes true. Replaces the time set by an earlier call.
  void end_at(std::chrono::steady_clock::time_point time);
  bool time_is_up() const;

 private:
  static constexpr std::size_t handled_signals = 8;

  std::array<struct sigaction, handled_signals> before_{};
  std::optional<timer_t> timer_;      ///< created by end_at(); sends SIGALRM
  struct sigaction before_alarm_ {};  ///< previous action of SIGALRM; valid if timer_ has a value
};

/// Signals and limits that may end a run before its last step or request a save.
struct Interruptions {
  RunSignals* signals = nullptr;
  TimeLimit time{};
  std::optional<std::uint64_t> last_step{};  ///< the run stops after this step
};

}  // namespace tapestry
