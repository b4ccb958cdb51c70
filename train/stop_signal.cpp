#include "train/stop_signal.h"

#include <csignal>

namespace tapestry {
namespace {

constexpr std::array handled{SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};

volatile std::sig_atomic_t first_signal = 0;

/// Calls only what a signal handler may call. The second signal ends the process once this returns.
void remember(int signal) {
  if (first_signal == 0) {
    first_signal = signal;
    return;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void handle(int signal) {
  const bool stops = signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
  struct sigaction action {};
  action.sa_handler = stops ? remember : SIG_IGN;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  static_assert(handled.size() == handled_signals);
  first_signal = 0;
  for (std::size_t i = 0; i < handled.size(); ++i) {
    ::sigaction(handled[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) handle(handled[i]);
  }
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < handled.size(); ++i) ::sigaction(handled[i], &before_[i], nullptr);
}

int StopSignal::received() const { return first_signal; }

}  // namespace tapestry
