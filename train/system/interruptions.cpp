// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/interruptions.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "data/example_file.h"
#include "data/io/durable_file.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

using Handler = void (*)(int);

struct Handled {
  int signal;
  Handler handler;
};

volatile std::sig_atomic_t first_stop = 0;
volatile std::sig_atomic_t save_requested = 0;
volatile std::sig_atomic_t time_over = 0;
volatile std::sig_atomic_t error_is_terminal = 0;
volatile std::sig_atomic_t saves_at_stop = 1;
enum Phase : int { no_run, loading, running };
volatile std::sig_atomic_t phase = no_run;
// Whether stop_by() was called and this process has not yet received a signal itself.
volatile std::sig_atomic_t stopped_by_peer = 0;
std::atomic<bool> wants_end{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

// Handlers use only async-signal-safe operations.

void print(std::string_view text) {
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  errno = error;
}

void announce_stop() {
  if (error_is_terminal == 0) return;
  print(saves_at_stop != 0
            ? "\nstopping after a save; a second signal ends the run immediately, without a save\n"
            : "\nstopping; a second signal ends the run immediately\n");
}

/// Raises a signal again with its default action, which ends the process when the handler returns.
void end_by(int signal) {
  remove_own_temporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Ends the process unless a run is being trained; in that case, records the first signal.
void remember_stop(int signal) {
  if (phase == no_run) {
    end_by(signal);
  } else if (phase == loading) {
    remove_own_temporaries();
    print("stopped by SIG");
    print(::sigabbrev_np(signal));
    print(" while the run was loaded; there was nothing to save\n");
    std::_Exit(signal_exit_base + signal);
  } else if (first_stop == 0) {
    first_stop = signal;
    wants_end = true;
    announce_stop();
  } else if (stopped_by_peer != 0) {  // the same request: both processes received the signal
    stopped_by_peer = 0;
  } else if (signal != SIGXCPU) {
    end_by(signal);
  }
}

void remember_save(int /*signal*/) { save_requested = 1; }

void remember_time(int /*signal*/) {
  time_over = 1;
  wants_end = true;
}

const std::array handled{Handled{SIGINT, remember_stop},  Handled{SIGTERM, remember_stop},
                         Handled{SIGHUP, remember_stop},  Handled{SIGUSR2, remember_stop},
                         Handled{SIGXCPU, remember_stop}, Handled{SIGUSR1, remember_save},
                         Handled{SIGPIPE, SIG_IGN},       Handled{SIGXFSZ, SIG_IGN}};

void install(const Handled& entry) {
  struct sigaction action {};
  action.sa_handler = entry.handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(entry.signal, &action, nullptr);
}

/// Ends the process if the file of examples is shorter than when it was mapped.
void report_short_file(int signal, siginfo_t* info, void* /*context*/) {
  if (!is_in_example_file(info->si_addr)) return end_by(signal);
  remove_own_temporaries();
  print(
      "tapestry: error: train.examples, the cache of the training data: found a shorter file than "
      "at the start, expected a file that does not change\n"
      "hint: resume the run to make the cache again\n");
  std::_Exit(static_cast<int>(ExitCode::data));
}

}  // namespace

void handle_signals_of_program() {
  struct sigaction bus {};
  bus.sa_sigaction = report_short_file;
  bus.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &bus, nullptr);
  for (const Handled& entry : handled) {
    struct sigaction before {};
    ::sigaction(entry.signal, nullptr, &before);
    if (entry.handler != SIG_IGN && before.sa_handler == SIG_DFL) install(entry);
  }
}

RunSignals::RunSignals(bool saves, bool loads) {
  static_assert(handled.size() == handled_signals);
  first_stop = 0;
  stopped_by_peer = 0;
  time_over = 0;
  wants_end = false;
  saves_at_stop = saves ? 1 : 0;
  error_is_terminal = ::isatty(STDERR_FILENO);
  phase = loads ? loading : running;
  for (std::size_t i = 0; i < handled.size(); ++i) {
    ::sigaction(handled[i].signal, nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) install(handled[i]);
  }
}

RunSignals::~RunSignals() {
  if (timer_) {
    ::timer_delete(*timer_);
    ::sigaction(SIGALRM, &before_alarm_, nullptr);
  }
  for (std::size_t i = 0; i < handled.size(); ++i) {
    ::sigaction(handled[i].signal, &before_[i], nullptr);
  }
  phase = no_run;
  save_requested = 0;
}

void RunSignals::start_run() { phase = running; }

int RunSignals::stop() const { return first_stop; }

void RunSignals::stop_by(int signal) {
  if (first_stop == 0) stopped_by_peer = 1;
  first_stop = signal;
  wants_end = true;
}

bool RunSignals::take_save_request() {
  const bool requested = save_requested != 0;
  save_requested = 0;
  return requested;
}

const std::atomic<bool>& RunSignals::end_requested() const { return wants_end; }

void RunSignals::end_at(std::chrono::steady_clock::time_point time) {
  if (!timer_) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    timer_t timer{};
    // If the timer cannot be created, the time limit is checked only between steps.
    if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return;
    timer_ = timer;
    ::sigaction(SIGALRM, nullptr, &before_alarm_);
    install({SIGALRM, remember_time});
  }
  using std::chrono::nanoseconds;
  const auto left = std::max<std::int64_t>(
      1, std::chrono::duration_cast<nanoseconds>(time - std::chrono::steady_clock::now()).count());
  constexpr std::int64_t second = 1'000'000'000;
  const itimerspec when{.it_interval = {},
                        .it_value = {.tv_sec = left / second, .tv_nsec = left % second}};
  ::timer_settime(*timer_, 0, &when, nullptr);
}

bool RunSignals::time_is_up() const { return time_over != 0; }

}  // namespace tapestry
