#include "train/parallel/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <system_error>

#include "train/error.h"
#include "train/platform/interruptions.h"
#include "train/platform/machine.h"
#include "train/platform/program_name.h"

namespace tapestry {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::array passed_on = {SIGINT,  SIGTERM, SIGHUP,  SIGUSR1,
                                  SIGUSR2, SIGXCPU, SIGQUIT, SIGCONT};

volatile pid_t child = 0;
volatile std::sig_atomic_t was_passed_on[NSIG] = {};  ///< by signal

/// Async-signal-safe.
void pass_on(int signal) {
  const int error = errno;
  was_passed_on[signal] = 1;
  if (child > 0) ::kill(child, signal);
  errno = error;
}

/// Prints what happened to the child, and returns the exit code of the supervisor.
int report_failure(const SupervisedState& state, const std::string& found, const char* hint) {
  const std::string text = fmt::format(
      "{}: error: rank {} on {}: process {} {} after step {}\nhint: {}\n", program_name(),
      state.rank.load(), host_name(), child + 0, found, state.step.load(), hint);
  std::fputs(text.c_str(), stderr);
  return static_cast<int>(ExitCode::peer_failed);
}

/// Whether the exit code is one that the program ends with when it ends all processes: not 1, with
/// which MPI ends as well. While it joins the others, only peer_failed is: libraries that MPI loads
/// exit with 2 if they find no memory.
bool is_abort_code(int code, SupervisedState::Phase phase) {
  const ExitCode lowest =
      phase == SupervisedState::Phase::joining ? ExitCode::peer_failed : ExitCode::usage;
  return code >= static_cast<int>(lowest) && code <= static_cast<int>(ExitCode::peer_failed);
}

/// The exit code of the supervisor of a child that ended with `status`, see waitpid(2).
int supervisor_exit_code(int status, const SupervisedState& state) {
  constexpr const char* hint =
      "the last checkpoint is whole; resume the run with --resume, with any number of processes";
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (state.has_result || is_abort_code(code, state.phase)) return code;
    return report_failure(
        state, fmt::format("was ended by MPI or another library, with exit code {},", code), hint);
  }
  const int signal = WTERMSIG(status);
  // Launchers send SIGCONT after SIGTERM.
  if (was_passed_on[signal] != 0) return signal_exit_base + signal;
  return report_failure(
      state, fmt::format("was ended by signal {} ({})", signal, ::strsignal(signal)), hint);
}

/// How long the child has been in its phase, without the time in which this process was stopped.
class PhaseTime {
 public:
  /// To be called at least once a second.
  Clock::duration measure(SupervisedState::Phase phase) {
    const Clock::time_point now = Clock::now();
    time_ = phase == phase_ ? time_ + std::min<Clock::duration>(now - looked_, 2s) : 0s;
    looked_ = now;
    phase_ = phase;
    return time_;
  }

 private:
  SupervisedState::Phase phase_ = SupervisedState::Phase::joining;
  Clock::time_point looked_ = Clock::now();
  Clock::duration time_ = 0s;
};

/// Waits until the child has ended, or kills it if it does not go on. Returns the exit code of the
/// supervisor.
///
/// ended  the set of SIGCHLD, which is blocked
int watch_child(const SupervisedState& state, std::chrono::seconds limit, const sigset_t& ended) {
  PhaseTime time;
  for (;;) {
    int status = 0;
    const pid_t found = ::waitpid(child, &status, WNOHANG);
    if (found == child) return supervisor_exit_code(status, state);
    if (found < 0 && errno != EINTR) return static_cast<int>(ExitCode::peer_failed);
    const SupervisedState::Phase phase = state.phase;
    if (time.measure(phase) > limit && phase != SupervisedState::Phase::running) {
      ::kill(child, SIGKILL);
      return report_failure(
          state,
          fmt::format("has {} the other processes for more than {} seconds, and was ended,",
                      phase == SupervisedState::Phase::joining ? "waited to be connected with"
                                                               : "waited to be disconnected from",
                      limit.count()),
          "another process was not started, hangs or cannot be reached; see the messages of the "
          "others; TAPESTRY_PEER_TIMEOUT sets the limit");
    }
    const timespec second{.tv_sec = 1, .tv_nsec = 0};
    ::sigtimedwait(&ended, nullptr, &second);  // or until another signal is passed on
  }
}

// ---- The launcher

/// Whether a process is mpirun of Open MPI or MPICH, which ends when its processes have ended; not,
/// for example, a shell or the daemon of a batch system.
bool is_mpirun(pid_t process) {
  std::error_code error;
  const auto program =
      std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process), error).filename();
  return program == "orterun" || program == "mpirun" || program == "mpiexec" ||
         program == "mpiexec.hydra";
}

/// Whether a process has a child that runs; also true if the system does not tell.
bool has_running_child(pid_t process) {
  std::ifstream children(fmt::format("/proc/{}/task/{}/children", process, process));
  if (!children) return true;
  for (pid_t child_process = 0; children >> child_process;) {
    std::ifstream file(fmt::format("/proc/{}/stat", child_process));
    std::string stat;
    std::getline(file, stat);  // "pid (name) state ...", where the name may have any characters
    const std::size_t end_of_name = stat.rfind(')');
    if (end_of_name == std::string::npos) continue;  // it has ended
    if (stat.compare(end_of_name, 4, ") Z ") != 0) return true;
  }
  return false;
}

/// Kills the launcher when it has had no running child for `limit`. Returns when it has ended.
void end_hung_launcher(pid_t launcher, int descriptor, std::chrono::seconds limit) {
  for (Clock::time_point busy = Clock::now(); Clock::now() < busy + limit;) {
    pollfd ended{.fd = descriptor, .events = POLLIN, .revents = 0};
    if (::poll(&ended, 1, 1000) > 0) return;
    if (has_running_child(launcher)) busy = Clock::now();
  }
  ::syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0);
}

/// Leaves a process behind that ends a launcher which hangs: mpirun of Open MPI 4.1 sometimes does
/// so when a process was killed while MPI connected it, after all processes have ended. The process
/// has no open files, since mpirun waits for the end of the output of its processes.
void watch_launcher(std::chrono::seconds limit) {
  const pid_t launcher = ::getppid();
  if (!is_mpirun(launcher)) return;
  const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, launcher, 0));
  if (descriptor < 0 || ::fork() != 0) return;
  ::setsid();
  constexpr int own = 3;
  ::dup2(descriptor, own);
  ::close_range(0, own - 1, 0);
  ::close_range(own + 1, ~0U, 0);
  for (const int signal : passed_on) std::signal(signal, SIG_DFL);
  end_hung_launcher(launcher, own, limit);
  std::_Exit(0);
}

/// Memory that parent and child share.
SupervisedState& shared_state() {
  void* const memory = ::mmap(nullptr, sizeof(SupervisedState), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  static SupervisedState own;  // without memory to share
  return memory == MAP_FAILED ? own : *new (memory) SupervisedState();
}

}  // namespace

SupervisedState& continue_supervised(std::size_t rank, std::chrono::seconds limit) {
  SupervisedState& state = shared_state();
  state.rank = rank;
  sigset_t signals, before, ended;
  sigemptyset(&signals);
  for (const int signal : passed_on) sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  const pid_t parent = ::getpid();
  std::signal(SIGCHLD, SIG_DFL);  // if it is ignored, waitpid() does not tell how the child ended
  const pid_t forked = ::fork();
  if (forked <= 0) {
    if (forked == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::raise(SIGKILL);
      ::setpgid(0, 0);           // what is sent to the group comes from the supervisor alone,
      merge_repeated_signals();  // but Slurm sends to every process
    }
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return state;
  }
  child = forked;
  for (const int signal : passed_on) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = pass_on;
    ::sigaction(signal, &action, nullptr);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::sigprocmask(SIG_BLOCK, &ended, nullptr);
  const int code = watch_child(state, limit, ended);
  if (code != 0) watch_launcher(limit);
  std::_Exit(code);
}

}  // namespace tapestry
