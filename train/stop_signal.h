#pragma once

namespace tapestry {

/// While one is alive, SIGINT, SIGTERM and SIGHUP are remembered instead of ending the process, so
/// that a run can finish its step and save. A second signal ends the process at once. SIGPIPE and
/// SIGXFSZ are ignored: writes report such errors themselves.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The first signal received so far, or 0.
  int received() const;
};

}  // namespace tapestry
