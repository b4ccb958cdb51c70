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

/// Signals and limits that may end a run before its last step or request a save.
struct Interruptions {
  RunSignals* signals = nullptr;
  TimeLimit time{};
  std::optional<std::uint64_t> last_step{};  ///< the run stops after this step
};

}  // namespace tapestry
