// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <csignal>

namespace tapestry {

/// Blocks all signals of the calling thread during its lifetime. Threads started during this time
/// inherit the mask and keep signals blocked, so that the system delivers signals to other threads.
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

  /// The signal mask of the thread before construction.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

}  // namespace tapestry
