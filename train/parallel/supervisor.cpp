#include "train/parallel/supervisor.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "train/error.h"
#include "train/platform/interruptions.h"
#include "train/platform/machine.h"
#include "train/platform/program_name.h"

namespace tapestry {
namespace {

constexpr std::array passed_on = {SIGINT,  SIGTERM, SIGHUP,  SIGUSR1,
                                  SIGUSR2, SIGXCPU, SIGQUIT, SIGCONT};

volatile pid_t child = 0;
volatile std::sig_atomic_t last_passed_on = 0;

/// Async-signal-safe.
void pass_on(int signal) {
  const int error = errno;
  last_passed_on = signal;
  if (child > 0) ::kill(child, signal);
  errno = error;
}

/// Waits until the child has ended. Returns the exit code of the supervisor.
int watch_child(const SupervisedState& state) {
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (ended < 0) return static_cast<int>(ExitCode::peer_failed);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  if (signal == last_passed_on) return signal_exit_base + signal;
  const std::string text = fmt::format(
      "{}: error: rank {} on {}: process {} was ended by signal {} ({}) after step {}, expected it "
      "to go on until all end\nhint: the last checkpoint is whole; resume the run with --resume, "
      "with any number of processes\n",
      program_name(), state.rank.load(), host_name(), child + 0, signal, ::strsignal(signal),
      state.step.load());
  std::fputs(text.c_str(), stderr);
  return static_cast<int>(ExitCode::peer_failed);
}

/// Memory that parent and child share.
SupervisedState& shared_state() {
  void* const memory = ::mmap(nullptr, sizeof(SupervisedState), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  static SupervisedState own;  // without memory to share
  return memory == MAP_FAILED ? own : *new (memory) SupervisedState();
}

}  // namespace

SupervisedState& continue_supervised() {
  SupervisedState& state = shared_state();
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int signal : passed_on) sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
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
  std::_Exit(watch_child(state));
}

}  // namespace tapestry
