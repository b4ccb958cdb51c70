#include "train/stop_signal.h"

#include <csignal>

namespace tapestry {
namespace {

constexpr int stopping[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int ignored[] = {SIGPIPE, SIGXFSZ};

volatile std::sig_atomic_t first_signal = 0;

void remember(int signal) {
  first_signal = signal;
  for (const int each : stopping) std::signal(each, SIG_DFL);
}

}  // namespace

StopSignal::StopSignal() {
  first_signal = 0;
  for (const int signal : stopping) std::signal(signal, remember);
  for (const int signal : ignored) std::signal(signal, SIG_IGN);
}

StopSignal::~StopSignal() {
  for (const int signal : stopping) std::signal(signal, SIG_DFL);
  for (const int signal : ignored) std::signal(signal, SIG_DFL);
}

int StopSignal::received() const { return first_signal; }

}  // namespace tapestry
