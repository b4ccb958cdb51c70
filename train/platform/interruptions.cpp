#include "train/platform/interruptions.h"

#include <algorithm>
#include <csignal>

namespace tapestry {
namespace {

using Handler = void (*)(int);

struct Handled {
  int signal;
  Handler handler;
};

volatile std::sig_atomic_t first_stop = 0;
volatile std::sig_atomic_t save_requested = 0;

// Handlers use only async-signal-safe operations.

/// A second signal is raised again with its default action, which ends the process when the handler
/// returns.
void remember_stop(int signal) {
  if (first_stop == 0) {
    first_stop = signal;
    return;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void remember_save(int /*signal*/) { save_requested = 1; }

const std::array handled{Handled{SIGINT, remember_stop}, Handled{SIGTERM, remember_stop},
                         Handled{SIGHUP, remember_stop}, Handled{SIGUSR1, remember_save},
                         Handled{SIGPIPE, SIG_IGN},      Handled{SIGXFSZ, SIG_IGN}};

void install(const Handled& entry) {
  struct sigaction action {};
  action.sa_handler = entry.handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(entry.signal, &action, nullptr);
}

}  // namespace

RunSignals::RunSignals() {
  static_assert(handled.size() == handled_signals);
  first_stop = 0;
  save_requested = 0;
  for (std::size_t i = 0; i < handled.size(); ++i) {
    ::sigaction(handled[i].signal, nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) install(handled[i]);
  }
}

RunSignals::~RunSignals() {
  for (std::size_t i = 0; i < handled.size(); ++i) {
    ::sigaction(handled[i].signal, &before_[i], nullptr);
  }
}

int RunSignals::stop() const { return first_stop; }

bool RunSignals::take_save_request() {
  const bool requested = save_requested != 0;
  save_requested = 0;
  return requested;
}

void TimeLimit::note_turn(Clock::duration taken) { longest_turn_ = std::max(longest_turn_, taken); }

void TimeLimit::note_save(Clock::duration taken) { longest_save_ = std::max(longest_save_, taken); }

bool TimeLimit::is_up(Clock::time_point now) const {
  if (limit_ == std::chrono::seconds(0)) return false;
  return now - started_ + longest_turn_ + longest_save_ >= limit_;
}

}  // namespace tapestry
