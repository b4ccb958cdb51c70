#pragma once

#include <signal.h>

#include <array>
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

}  // namespace tapestry
