#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tapestry {

/// What a supervised process reports to its supervisor.
struct SupervisedState {
  enum class Phase : int {
    joining,  ///< it connects with the other processes
    running,  ///< a Watchdog watches the others, and theirs this process
    leaving,  ///< it disconnects from the others
  };

  std::atomic<std::uint64_t> rank{0};
  std::atomic<std::uint64_t> step{0};  ///< the last step that it has done
  std::atomic<Phase> phase{Phase::joining};
  std::atomic<bool> has_result{false};  ///< whether its exit code is that of the program

  /// To be called when the process ends. One that has not joined the others does not leave them: a
  /// library may have ended it.
  void leave() {
    Phase expected = Phase::running;
    phase.compare_exchange_strong(expected, Phase::leaving);
  }
};

/// Continues in a child process, whose state is returned. The calling process stays as its
/// supervisor and does not return: it passes signals on, and ends with the exit code of the child.
/// It prints rank, machine and last step, and ends with ExitCode::peer_failed, by which the
/// launcher ends the other processes, if
///
///   - a signal that it has not passed on ends the child, such as SIGKILL for lack of memory;
///   - the child ends with an exit code that is not that of the program, such as one of MPI;
///   - the child joins or leaves the other processes for longer than `limit`; it is then killed.
///     The time during which the supervisor itself was stopped does not count.
///
/// If the supervisor ends, the system kills the child. If the exit code is not 0 and the launcher is
/// mpirun, it leaves a process behind that kills mpirun if it hangs: if it still exists when it has
/// had no running child process for `limit`.
///
/// rank  of this process, as far as it is known, for messages
///
/// To be called before the process has threads or has printed anything. The state exists until the
/// process ends. Without memory for another process, the calling process itself continues.
SupervisedState& continue_supervised(std::size_t rank, std::chrono::seconds limit);

}  // namespace tapestry
