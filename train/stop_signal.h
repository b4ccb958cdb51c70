#pragma once

#include <signal.h>

#include <array>
#include <cstddef>

namespace tapestry {

/// While one is alive, SIGINT, SIGTERM and SIGHUP are remembered instead of ending the process, so
/// that a run can finish its step and save. A second signal ends the process at once. SIGPIPE and
/// SIGXFSZ are ignored: writes report such errors themselves. A signal that is ignored already,
/// such as SIGHUP under nohup, stays so. Afterwards everything is as before. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The first signal received so far, or 0.
  int received() const;

 private:
  static constexpr std::size_t handled_signals = 5;

  std::array<struct sigaction, handled_signals> before_{};
};

}  // namespace tapestry
