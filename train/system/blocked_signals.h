#pragma once

#include <pthread.h>

#include <csignal>

namespace tapestry {

/// Blocks all signals of the calling thread during its lifetime. A thread that is started meanwhile
/// keeps them blocked: the system then delivers a signal to another thread.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  /// The signals that were blocked before.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

}  // namespace tapestry
