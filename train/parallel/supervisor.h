#pragma once

#include <atomic>
#include <cstdint>

namespace tapestry {

/// What a supervised process tells its supervisor.
struct SupervisedState {
  std::atomic<std::uint64_t> rank{0};
  std::atomic<std::uint64_t> step{0};  ///< the last step that it has done
};

/// Continues in a child process, whose state is returned. The calling process stays as its
/// supervisor and does not return: it passes signals on, and ends with the exit code of the child.
/// If a signal that it has not passed on ends the child, such as SIGKILL for lack of memory, it
/// prints rank, machine and last step, and ends with ExitCode::peer_failed, by which the launcher
/// ends the other processes. If the supervisor ends, the system kills the child.
///
/// To be called before the process has threads or has printed anything. The state exists until the
/// process ends. Without memory for another process, the calling process itself continues.
SupervisedState& continue_supervised();

}  // namespace tapestry
